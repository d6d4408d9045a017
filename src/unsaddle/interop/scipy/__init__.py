"""SciPy's minimizers, promoted: they do not stop at saddles.

`minimize` has the signature and the result of `scipy.optimize.minimize`; `neon` is the same as a custom method for it.
"""

from unsaddle.interop.scipy.promotion import minimize, neon

__all__ = ["minimize", "neon"]
