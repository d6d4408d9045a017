"""What `benchmarks.fuzz_calls` draws: arguments, callables and calls that nobody should make."""
