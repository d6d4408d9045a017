"""SciPy's minimizers that do not stop at saddles: `minimize`, and `neon` as a custom method for SciPy's own.

`hessian_operator` is the Hessian as a `LinearOperator`.
"""

from unsaddle.interop.scipy.linear_operator import hessian_operator
from unsaddle.interop.scipy.promotion import minimize, neon

__all__ = ["hessian_operator", "minimize", "neon"]
