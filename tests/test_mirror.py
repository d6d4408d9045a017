"""Tests stand where their source does: `a/b.py` is tested by `tests/a/test_b.py`, with the exceptions written here."""

from __future__ import annotations

import ast

from tests.source import TESTS, files

SUITES = {
    "judgement/test_wrong_verdicts.py": "verdicts that were wrong once, whatever file made them so",
    "baselines/test_contract.py": "what every baseline promises",
    "curvature/krylov/test_certificate_rates.py": "how often the certificate holds, over many seeds",
    "curvature/test_contract.py": "what every extractor promises, on every problem of the zoo",
    "metric/test_random_metrics.py": "any metric, whatever file takes it in",
    "curvature/test_memory.py": "how many vectors an extractor holds",
    "curvature/test_success_rates.py": "how often extractors succeed, over many seeds",
    "distributed/test_examples.py": "the examples, on ranks",
    "distributed/test_ranks.py": "the whole library on ranks against one process",
    "distributed/test_spectrum.py": "the spectrum on ranks against one process",
    "distributed/test_training.py": "Neon on ranks: checkpoints, errors and killed processes",
    "first_order/test_corollaries.py": "first-order methods with the constants of their corollaries",
    "interop/ase/test_scf.py": "calculators with an SCF inside, whatever file they meet",
    "interop/scipy/test_soft_saddles.py": "soft saddles and flat valleys, whichever method ends there",
    "interop/test_trainers.py": "Neon inside trainers that others wrote",
    "judgement/test_budget.py": "verdicts that may take few gradients, whatever file makes them",
    "judgement/test_metric.py": "verdicts of searches in a metric",
    "judgement/test_sampled_rates.py": "how often verdicts on samples are wrong, over many seeds",
    "objectives/model/test_refusals.py": "what a model may not do, whichever file notices",
    "objectives/model/test_runs.py": "real models, from end to end",
    "problems/test_formulas.py": "every problem against a plain formula and autograd",
    "report/test_browser.py": "the page in a browser",
    "test_capabilities.py": "what oracles and objectives can be asked, and that wrappers forward it",
    "test_demo.py": "make demo, from end to end",
    "test_docs.py": "that what documents name is there",
    "test_eps.py": "one rule for what counts as stationary",
    "test_fuzz_calls.py": "hostile calls of the public functions, as a benchmark makes more of them",
    "test_identities.py": "mathematics, stated without the implementation",
    "test_imports.py": "which way imports point",
    "test_disk.py": "faults around the file of rows, as a benchmark makes more of them",
    "test_kill.py": "runs that are hit by signals and started again, as a benchmark makes more of them",
    "test_load.py": "many verdicts at once, as a benchmark makes more of them",
    "test_mirror.py": "where tests stand",
    "test_mutants.py": "that a benchmark's changes of the source reach the tests",
    "test_mistakes.py": "mistakes that users make, at the public functions",
    "test_promotion.py": "every promoted method from every saddle of the zoo",
    "test_site.py": "the site in a browser",
    "test_rank_safety.py": "vectors of which a rank holds a part",
    "torch_optim/test_checkpoint.py": "a run that was saved goes on bit for bit",
    "torch_optim/test_examples.py": "the examples, in one process",
    "torch_optim/test_verdicts.py": "what Neon says and does, from end to end",
}
"""Files of tests that are about no single file of the source."""

ELSEWHERE = {
    "baselines/test_contract.py": ["baselines/constants.py", "baselines/guard.py", "baselines/samples.py"],
    "baselines/test_sncg.py": ["baselines/lowest_curvature.py"],
    "curvature/krylov/test_careful.py": [
        "curvature/krylov/attempts.py",
        "curvature/krylov/next_to_x.py",
        "curvature/krylov/quadratic.py",
        "curvature/krylov/surroundings.py",
    ],
    "curvature/krylov/test_extractor.py": ["curvature/krylov/runs.py"],
    "curvature/test_extract.py": ["curvature/auto.py", "curvature/result.py"],
    "distributed/test_ranks.py": [
        "ranks.py",
        "objectives/rank_rows.py",
        "objectives/model/distributed.py",
        "objectives/model/rank_data.py",
    ],
    "distributed/test_training.py": ["torch_optim/replicas.py", "torch_optim/sharded_state.py"],
    "experiments/test_cases.py": ["experiments/case.py", "experiments/data_cases.py"],
    "experiments/test_complexity.py": ["experiments/table_one.py"],
    "experiments/test_data.py": ["experiments/gisette.py"],
    "experiments/test_harness.py": ["experiments/environment.py"],
    "experiments/test_watch.py": ["experiments/meter.py"],
    "first_order/test_corollaries.py": ["first_order/premises.py"],
    "framework/test_neon_a.py": ["framework/plan.py"],
    "interop/test_trainers.py": [
        "interop/lightning.py",
        "interop/tensorboard.py",
        "interop/transformers.py",
        "interop/unwrap.py",
    ],
    "judgement/test_minimum.py": [
        "judgement/contested.py",
        "judgement/evidence.py",
        "judgement/plots.py",
        "judgement/verdict.py",
    ],
    "test_told.py": ["pictures.py", "run_plots.py", "curvature/plots.py"],
    "objectives/model/test_refusals.py": ["objectives/model/hooks.py"],
    "objectives/test_numpy_function.py": ["objectives/deterministic.py"],
    "problems/test_formulas.py": [
        "problems/hadamard_regression.py",
        "problems/linear_network.py",
        "problems/matrix_sensing.py",
        "problems/phase_retrieval.py",
        "problems/symmetric_factorisation.py",
        "problems/tensor_decomposition.py",
        "problems/two_dimensional_saddle.py",
    ],
    "problems/test_prescribed_spectrum.py": ["problems/reflection.py"],
    "problems/test_zoo.py": ["problems/arguments.py", "problems/dense.py"],
    "report/test_complexity.py": [
        "report/complexity_curves.py",
        "report/complexity_figures.py",
        "report/complexity_statements.py",
    ],
    "report/test_page.py": ["report/blocks.py", "report/provenance.py", "report/sections.py", "report/style.py"],
    "spectrum/test_hessian.py": ["spectrum/operator.py"],
    "spectrum/test_pairs.py": ["spectrum/plots.py", "spectrum/result.py"],
    "commands/test_check.py": ["report/check.py"],
    "test_cli.py": ["commands/group.py", "commands/output.py", "commands/report.py", "commands/reproduce.py"],
    "test_methods.py": ["options.py", "progress.py"],
    "curvature/test_renormalisation.py": ["theory/renormalised.py"],
    "torch_optim/test_checkpoint.py": ["torch_optim/checkpointed.py"],
    "torch_optim/test_neon.py": ["torch_optim/around.py", "torch_optim/callers.py"],
    "torch_optim/test_online.py": ["torch_optim/batch.py"],
    "torch_optim/test_policy.py": ["torch_optim/plateau.py", "torch_optim/rules.py"],
    "torch_optim/test_verdicts.py": [
        "torch_optim/at_once.py",
        "torch_optim/events.py",
        "torch_optim/evidence.py",
        "torch_optim/prober.py",
        "torch_optim/step_length.py",
    ],
}
"""Files of the source that are tested by another's tests, since it is only through it that they are used."""


def mirror(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}test_{name}"


def ours() -> set[str]:
    return {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}


def with_code() -> set[str]:
    """What has a function or a class; the others gather names."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {path for path, tree in files().items() if any(isinstance(node, kinds) for node in ast.walk(tree))}


def test_every_source_has_its_tests() -> None:
    without = {path for path in with_code() if mirror(path) not in ours()}
    elsewhere = [path for paths in ELSEWHERE.values() for path in paths]
    assert len(set(elsewhere)) == len(elsewhere)
    assert not without - set(elsewhere), "write a file of tests for these, or say in ELSEWHERE who tests them"
    assert not set(elsewhere) - without, "unlist these: they are gone, or have tests of their own"


def test_every_file_of_tests_has_its_source() -> None:
    without = ours() - {mirror(path) for path in files()}
    assert not without - set(SUITES), "name these after the file that they test, or list them in SUITES with a reason"
    assert not set(SUITES) - without, "unlist these: they are gone, or mirror a file"


def test_the_tests_elsewhere_are_there() -> None:
    assert set(ELSEWHERE) <= ours()
