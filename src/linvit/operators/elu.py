"""`elu`: kernelised attention with phi(x) = elu(x) + 1."""

import torch.nn.functional as F
from torch import Tensor

from linvit.operators.kernel import KernelAttention


class Elu(KernelAttention):
    @staticmethod
    def feature_map(x: Tensor, inplace: bool = False) -> Tensor:
        return F.elu(x, inplace=inplace).add_(1)

    @staticmethod
    def feature_slope(features: Tensor) -> Tensor:
        """exp(x) is the feature itself where x < 0; 1 elsewhere."""
        return features.clamp(max=1)
