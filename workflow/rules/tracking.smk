# MLflow is a view: finished cells are imported by one process, after the fact.


rule track:
    input:
        study=layout.study_file,
        cells=layout.root / "cells.csv",
    output:
        layout.root / "tracked.json",
    log:
        layout.root / "logs" / "track.log",
    conda:
        "../../envs/linvit.yaml"
    shell:
        "linvit track --study {input.study} --out {output} 2>&1 | tee {log}"
