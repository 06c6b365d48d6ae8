# Sources that the study pre-trains wait for nothing but data, so they start first; those that are
# files of the user are checked and copied.


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


for name, file in layout.source_files.items():

    rule:
        name:
            f"source_{name}"
        input:
            study=layout.study_file,
            file=file,
        output:
            weights=study.weights(name),
            described=study.weights(name).with_suffix(".json"),
        log:
            layout.root / "logs" / f"source-{name}.log",
        conda:
            "../../envs/linvit.yaml"
        params:
            source=name,
        shell:
            "linvit adopt {params.source} --study {input.study} --out {output.weights} 2>&1 | tee {log}"
