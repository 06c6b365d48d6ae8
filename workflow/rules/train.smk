# One rule per pack: cells that share data stream and teacher train in one process. Snakemake
# deletes the outputs of a rule it runs again; cells that are right come back from the side store.


for pack in layout.packs:

    rule:
        name:
            f"train_{pack.name}"
        input:
            specs=layout.specs(pack.cells),
            data=layout.data_of(pack.dataset),
            sources=[study.weights(name) for name in pack.sources],
        output:
            metrics=layout.results(pack.cells, "metrics.json"),
        log:
            layout.root / "logs" / f"train-{pack.name}.log",
        priority: 10
        conda:
            "../../envs/linvit.yaml"
        threads: 1
        resources:
            mem_mb=2000,
        shell:
            "linvit train {input.specs} 2>&1 | tee {log}"
