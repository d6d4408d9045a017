"""Tests press Ctrl-C on processes of their own."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # As where a shell started this in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
