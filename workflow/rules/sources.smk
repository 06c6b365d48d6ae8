# Sources that the study pre-trains; it waits for nothing but data, so it starts first.


for name in layout.sources:

    rule:
        name:
            f"source_{name}"
        input:
            spec=layout.source_spec(name),
            data=layout.data_of(study.sources[name].pretrain.dataset),
        output:
            weights=study.weights(name),
            described=study.weights(name).with_suffix(".json"),
        log:
            layout.root / "logs" / f"source-{name}.log",
        priority: 100
        conda:
            "../../envs/linvit.yaml"
        resources:
            mem_mb=2000,
        shell:
            "linvit pretrain {input.spec} --out {output.weights} 2>&1 | tee {log}"
