"""ASE: a test whether a relaxed structure is a minimum, and optimizers that do not stop at saddles. Forces only.

print(is_minimum(atoms))                                 # eV/Å², cm⁻¹, meV; a filter for the cell is fine, too
print(morse_index(atoms))                                # how many motions lower the energy
Neon(atoms, logfile="-", trajectory="run.traj").run(fmax=0.01)
promoted(Sella)(atoms, order=0, internal=True).run(fmax=0.01)
"""

from unsaddle.interop.ase.index import morse_index
from unsaddle.interop.ase.minimum import is_minimum
from unsaddle.interop.ase.optimizer import Neon, promoted
from unsaddle.interop.ase.surface import CalculationError
from unsaddle.interop.ase.verdict import StructureVerdict

__all__ = ["CalculationError", "Neon", "StructureVerdict", "is_minimum", "morse_index", "promoted"]
