"""linvit: a grid of training cells in, tables, figures and verdicts on claims out.

snakemake                                             the laptop study (config.yaml)
snakemake --configfile workflow/studies/smoke.yaml    another study
snakemake results/laptop/cells/CELL/test.json         one cell
"""

from linvit.study.config import load_study
from linvit.study.layout import Layout

# A study given on the command line replaces the default one: the two are never merged.
if "study" not in config:

    configfile: "config.yaml"


pack_size = int(config.pop("pack", 16))
study = load_study(config, files=workflow.configfiles)
layout = Layout(study, pack_size)
layout.write()


rule all:
    input:
        layout.tables,
        layout.figures,
        layout.root / "claims.md",
        layout.root / "tracked.json",


include: "workflow/rules/data.smk"
include: "workflow/rules/sources.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tracking.smk"
