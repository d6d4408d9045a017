"""Every extractor by name."""

from __future__ import annotations

from unsaddle.curvature.extractor import Extractor
from unsaddle.curvature.krylov.extractor import KRYLOV
from unsaddle.curvature.krylov.lanczos import LANCZOS
from unsaddle.curvature.neon import NEON, NEON_RENORMALISED
from unsaddle.curvature.neon2_det import NEON2_DET
from unsaddle.curvature.neon2_online import NEON2_ONLINE
from unsaddle.curvature.neon_plus import NEON_PLUS, NEON_PLUS_RENORMALISED
from unsaddle.curvature.oja import OJA, OJA_FIRST_ORDER
from unsaddle.curvature.power import POWER

EXTRACTORS: dict[str, Extractor] = {
    "krylov": KRYLOV,
    "neon": NEON,
    "neon+": NEON_PLUS,
    "power": POWER,
    "lanczos": LANCZOS,
    "neon-renormalised": NEON_RENORMALISED,
    "neon+-renormalised": NEON_PLUS_RENORMALISED,
    "neon2-det": NEON2_DET,
    "neon2-online": NEON2_ONLINE,
    "oja": OJA,
    "oja-first-order": OJA_FIRST_ORDER,
}
"""A new extractor needs a file that ends with an `Extractor`, and a line here."""

GRADIENT_ONLY = tuple(name for name, extractor in EXTRACTORS.items() if not extractor.needs_products)
"""Names of the extractors that need no Hessian products."""
