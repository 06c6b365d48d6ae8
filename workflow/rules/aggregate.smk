# Results -> two tidy tables -> the study's tables and verdicts.


rule aggregate:
    input:
        study=layout.study_file,
        metrics=layout.results(study.cells(), "metrics.json"),
        tests=layout.results(study.cells(), "test.json"),
    output:
        cells=layout.root / "cells.csv",
        curves=layout.root / "curves.csv",
    log:
        layout.root / "logs" / "aggregate.log",
    conda:
        "../../envs/linvit.yaml"
    shell:
        "linvit aggregate --study {input.study} 2>&1 | tee {log}"


rule table:
    input:
        script="workflow/scripts/table.py",
        cells=layout.root / "cells.csv",
    output:
        multiext(str(layout.root / "tables" / "{table}"), ".csv", ".md", ".tex"),
    log:
        layout.root / "logs" / "table-{table}.log",
    conda:
        "../../envs/linvit.yaml"
    params:
        out=lambda wildcards: layout.root / "tables" / wildcards.table,
    shell:
        "python {input.script} {wildcards.table} --cells {input.cells} --out {params.out} 2>&1 | tee {log}"


rule claims:
    input:
        script="workflow/scripts/claims.py",
        claims="workflow/claims.yaml",
        cells=layout.root / "cells.csv",
        frozen=layout.root / "claims.frozen.json",
    output:
        text=layout.root / "claims.md",
        table=layout.root / "claims.csv",
    log:
        layout.root / "logs" / "claims.log",
    conda:
        "../../envs/linvit.yaml"
    shell:
        "python {input.script} --claims {input.claims} --cells {input.cells}"
        " --frozen {input.frozen} --out {output.text} 2>&1 | tee {log}"
