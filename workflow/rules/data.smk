# Raw data -> decoded arrays that every cell maps into memory.


rule data:
    output:
        "results/data/{dataset}/manifest.json",
    log:
        "results/data/logs/{dataset}.log",
    conda:
        "../../envs/linvit.yaml"
    params:
        raw=lambda wildcards: (
            f"--raw {study.data_folders[wildcards.dataset]}"
            if wildcards.dataset in study.data_folders
            else ""
        ),
    shell:
        "linvit data {wildcards.dataset} {params.raw} 2>&1 | tee {log}"
