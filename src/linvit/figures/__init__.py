"""The study's figures: one module each, with `draw(Data) -> Figure`. Nothing here imports torch."""

FIGURES = (
    "components",
    "routing",
    "attention_only",
    "lambda_sweep",
    "learning_curves",
    "effects",
)
