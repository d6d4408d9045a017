"""SciPy's minimizers that do not stop at saddles: `minimize`, and `neon` as a custom method for SciPy's own."""

from unsaddle.interop.scipy.promotion import minimize, neon

__all__ = ["minimize", "neon"]
