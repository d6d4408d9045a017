"""`Neon`: any torch optimizer, promoted."""

from unsaddle.torch_optim.events import Event
from unsaddle.torch_optim.neon import Neon

__all__ = ["Event", "Neon"]
