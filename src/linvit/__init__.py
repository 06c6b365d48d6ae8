"""linvit: what can a linear-attention ViT take over from a pre-trained Softmax ViT, and how?"""

__version__ = "0.1.0"
