# The test split is read here and nowhere else, after the claims are frozen.


rule freeze:
    input:
        study=layout.study_file,
        claims="workflow/claims.yaml",
    output:
        layout.root / "claims.frozen.json",
    log:
        layout.root / "logs" / "freeze.log",
    conda:
        "../../envs/linvit.yaml"
    shell:
        "linvit freeze --study {input.study} --claims {input.claims} 2>&1 | tee {log}"


for test_set in layout.test_sets:

    rule:
        name:
            f"evaluate_{test_set.name}"
        input:
            specs=layout.specs(test_set.cells),
            metrics=layout.results(test_set.cells, "metrics.json"),
            frozen=ancient(layout.root / "claims.frozen.json"),
        output:
            tests=layout.results(test_set.cells, "test.json"),
        log:
            layout.root / "logs" / f"evaluate-{test_set.name}.log",
        conda:
            "../../envs/linvit.yaml"
        threads: 1
        resources:
            mem_mb=2000,
        shell:
            "linvit evaluate {input.specs} 2>&1 | tee {log}"
