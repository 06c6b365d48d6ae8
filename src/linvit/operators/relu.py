"""`relu`: kernelised attention with phi(x) = max(x, 0)."""

import torch.nn.functional as F
from torch import Tensor

from linvit.operators.kernel import KernelAttention


class Relu(KernelAttention):
    @staticmethod
    def feature_map(x: Tensor, inplace: bool = False) -> Tensor:
        return F.relu(x, inplace=inplace)

    @staticmethod
    def feature_slope(features: Tensor) -> Tensor:
        return features.sign()
