# A figure is redrawn when its numbers or its own code change, and then it alone.


rule figure:
    input:
        script="workflow/scripts/figure.py",
        code="src/linvit/figures/{figure}.py",
        style="src/linvit/figures/style.py",
        cells=layout.root / "cells.csv",
        curves=layout.root / "curves.csv",
        claims=layout.root / "claims.csv",
    output:
        multiext(str(layout.root / "figures" / "{figure}"), ".pdf", ".png"),
    log:
        layout.root / "logs" / "figure-{figure}.log",
    conda:
        "../../envs/linvit.yaml"
    params:
        out=lambda wildcards: layout.root / "figures" / wildcards.figure,
    shell:
        "python {input.script} {wildcards.figure} --cells {input.cells} --curves {input.curves}"
        " --claims {input.claims} --out {params.out} 2>&1 | tee {log}"
