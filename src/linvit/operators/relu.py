"""`relu`: kernelised attention with phi(x) = max(x, 0)."""

from torch import Tensor

from linvit.operators.kernel import KernelAttention


class Relu(KernelAttention):
    @staticmethod
    def feature_map(x: Tensor) -> Tensor:
        return x.relu_()

    @staticmethod
    def feature_slope(features: Tensor) -> Tensor:
        return features.sign()
