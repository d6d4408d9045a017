"""The Hessian as a `LinearOperator`, for whatever SciPy's sparse linear algebra does with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from unsaddle.objective import Objective
from unsaddle.spectrum import operator as products
from unsaddle.vectors import Array


def hessian_operator(objective: Objective, x: Any = None, *, samples: int | None = None, seed: int = 0) -> Any:
    """∇²F(x) as a SciPy `LinearOperator`, with gradients only.

    Args:
        objective: F.
        x: the point, a 1-D float tensor or array; it may be left out for an objective that has a `point` of its own.
        samples: |S|, drawn once; None for everything, or for 1024 samples of a stream.
        seed: of the samples, and of the survey of the gradients around x.

    One gradient a product; two where the gradients around x are noisy. The operator is symmetric up to the error of
    differences. Its dtype is that of x. `operator.torch` is the same as a callable on torch vectors, with its `cost`.

    >>> from scipy.sparse.linalg import eigsh
    >>> from unsaddle import Function
    >>> f = Function(lambda x: (torch.arange(1.0, 31.0, dtype=x.dtype) * x * x).sum() / 2)
    >>> H = hessian_operator(f, torch.zeros(30, dtype=torch.float64))
    >>> H.shape, eigsh(H, k=1, which="LA", return_eigenvectors=False).round(3).tolist()
    ((30, 30), [30.0])
    """
    from scipy.sparse.linalg import LinearOperator

    H = products.hessian_operator(objective, x, samples=samples, seed=seed)
    if H.x.shape != (H.dimension,):
        raise ValueError(
            f"a LinearOperator needs all of x, but this rank holds {tuple(H.x.shape)} of {H.dimension} entries; use "
            "unsaddle.spectrum.hessian_operator or unsaddle.eigenpairs on sharded models"
        )

    def product(v: Array) -> Array:
        if np.iscomplexobj(v):
            raise TypeError("the operator takes real vectors, got a complex one; pass its real and imaginary parts")
        result: Array = H(torch.as_tensor(v).reshape(-1).to(H.x)).cpu().numpy()
        return result

    dtype = np.dtype(str(H.x.dtype).removeprefix("torch."))
    operator = LinearOperator((H.dimension, H.dimension), matvec=product, rmatvec=product, dtype=dtype)
    operator.torch = H
    return operator
