"""Parts in the signatures that people use: the right ones agree, the wrong ones are caught and named by their answers."""

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from equivalence_tests import check
from equivalence_tests.check_command import main
from equivalence_tests.findings import SENTENCES
from equivalence_tests.loading import _module_of_file
from equivalence_tests.mistakes import PART_MISTAKES
from equivalence_tests.part_names import ALIASES, PART_NAMES
from equivalence_tests.part_sentences import PART_SENTENCES
from equivalence_tests.part_words import LAWS_ES, MISTAKES_ES
from equivalence_tests.parts import PARTS
from equivalence_tests.parts.checkpoint_example import difference, example
from equivalence_tests.parts.outside import check_part, conventions
from equivalence_tests.parts.outside.measure import row_of
from equivalence_tests.parts.outside.words import told_apart
from equivalence_tests.report import show

FILES = Path(__file__).parent / "candidates"
part_right, part_wrong = (_module_of_file(FILES / f"{name}.py") for name in ("part_right", "part_wrong"))

RIGHT = """adamw_one adamw_from_0 adamw_dicts adamw_lists adamw_config adamw_begun: adamw_step
AdamWTorch AdamWByName AdamWGiven: adamw_step
clip_grad_norm clip_by_global_norm clip_one: clip_gradients
get_lr get_lr_transformers: learning_rate
temperature: temperature
top_k_fill top_k_ties top_k_probs: top_k
nucleus: top_p
min_p_filter: min_p
repetition_once: penalise
forbid: ban
sample_distribution: probabilities
draw_token: choose
shift: inputs_and_targets
ppl: perplexity
save_checkpoint save_weights: save_checkpoint
load_checkpoint save_json: checkpoint
WordTokenizer: Tokenizer"""

# The known mistake, or where none is known the code of the finding that comes first.
WRONG = """adamw_step: epsilon_inside M117, not_corrected M113, times_correction M114, v_not_corrected O08, coupled M120
adamw_step: decay_without_rate ADW-03, absolute M122, m_not_weighted O06, no_root adamw_update, decays_after M119
adamw_step: counts_each_tensor M116, SharedMoments adamw_shared, AdamInsteadOfAdamW M120
clip_gradients: clip_each CLP-01, clip_values M129, clip_always M128
learning_rate: rate_whole_cosine O32
apply_temperature: multiplied_temperature G12
top_k: top_k_one_more M146, top_k_zero G15
top_p: top_p_drops_crossing M149
penalise: penalty_divides G01
min_p: min_p_absolute G19
choose: argmax_choice G41
inputs_and_targets: shifted_twice T71
perplexity: ppl_base_2 Q04
checkpoint: save_half K06, save_transposed checkpoint_transposed, save_moments K03
Tokenizer: ShiftsIds T05"""

CONVENTIONS = {
    "epsilon_first": ("adamw_step", "ADW-01"),
    "top_k_ties": ("top_k", "M147"),
    "get_lr_transformers": ("learning_rate", "LRS-01"),
}

ROWS_RIGHT = [
    (name, like) for line in RIGHT.splitlines() for names, like in [line.split(": ")] for name in names.split()
]
ROWS_WRONG = [
    (like, *pair.split())
    for line in WRONG.splitlines()
    for like, pairs in [line.split(": ")]
    for pair in pairs.split(", ")
]


@pytest.mark.parametrize(("name", "like"), ROWS_RIGHT, ids=[name for name, _ in ROWS_RIGHT])
def test_a_right_part_agrees_in_whatever_signature(name, like):
    report = check(getattr(part_right, name), like)
    assert report.passed, str(report)
    assert report.cases > 0


@pytest.mark.parametrize(("like", "name", "expected"), ROWS_WRONG, ids=[name for _, name, _ in ROWS_WRONG])
def test_a_wrong_part_is_caught_and_named(like, name, expected):
    report = check(getattr(part_wrong, name), like)
    assert report.exit_code == 1
    first = report.findings[0]
    assert first.numbers.get("id", first.code) == expected, str(report)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_another_librarys_rule_is_told_by_its_name_and_is_not_wrong(name):
    like, id = CONVENTIONS[name]
    report = check(getattr(part_right, name, None) or getattr(part_wrong, name), like)
    assert report.passed
    told = [note for note in report.notes if note.code == "part_convention"]
    assert [note.numbers["id"] for note in told] == [id]


QUICK = [id for id, mistake in PART_MISTAKES.items() if mistake.op not in ("generate_ids", "gpt_step", "adamw_step")]


@pytest.mark.parametrize("id", [*QUICK[::20], "ADW-01", "O16", "T55", "V05", "K13", "M156"])
def test_a_known_mistake_is_caught_and_named(id):
    """python -m equivalence_tests.parts.outside.measure tries all."""
    row = row_of(PART_MISTAKES[id])
    assert row.how != "missed"
    assert id in row.named


def test_two_near_answers_get_the_right_one_of_two_names():
    """At a gradient of 1e-8 p is 0.99999 with epsilon under the root and 0.9995 with a factor 1 - beta1^t too many."""
    for name, id in (("epsilon_inside", "M117"), ("times_correction", "M114")):
        finding = check(getattr(part_wrong, name), "adamw_step").findings[0]
        assert finding.numbers["id"] == id
        assert finding.numbers["others"] == []


def test_a_mistake_that_nobody_knows_is_placed_by_its_term():
    for wrong, code in (
        ({"decay": lambda p, wd, lr: 2 * wd * p}, "adamw_decay"),
        ({"move": lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v / c2) + 2 * eps)}, "adamw_epsilon"),
        ({"move": lambda m, v, c1, c2, eps: m / (c1 * c1) / (np.sqrt(v / c2) + eps)}, "adamw_first"),
        ({"move": lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v / c2**2) + eps)}, "adamw_second"),
        ({"move": lambda m, v, c1, c2, eps: 1.01 * m / c1 / (np.sqrt(v / c2) + eps)}, "adamw_update"),
    ):
        report = check_part(part_wrong.adamw_like(**wrong), "adamw_step")
        assert not report.passed
        first = next(finding for finding in report.findings if finding.code != "known_mistake")
        assert first.code == code, str(report)


def test_the_decay_of_adam_is_not_that_of_adamw():
    report = check(part_wrong.coupled, "adamw_step")
    assert "El decaimiento está dentro del gradiente" in report.findings[0].say("es")
    assert "The decay is in the gradient" in report.findings[0].say("en")


def test_two_numbers_that_differ_are_never_told_alike():
    assert told_apart(0.99999, 0.9995) == ("0.99999", "0.9995")
    got, right = told_apart(np.nextafter(1.0, 2.0), 1.0)
    assert got != right


def test_a_square_matrix_that_comes_back_transposed_is_seen():
    """In the example of the laws as well: there a matrix that is not square is told by its shape alone."""
    transposed = example()
    squares = [name for name, p in transposed.params.items() if p.ndim == 2 and p.shape[0] == p.shape[1]]
    assert squares
    for name in squares:
        transposed.params[name] = transposed.params[name].T.copy()
    assert difference(transposed, example())


# The report and the command


def test_every_part_and_every_word_is_known_in_both_languages():
    assert {ALIASES.get(name, name) for name in PART_NAMES} == {*PARTS, "generate_tokens"}
    known = {mistake.id for part in PART_NAMES for mistake in conventions.library(ALIASES.get(part, part))}
    assert known == MISTAKES_ES.keys()
    assert {law.__name__ for laws in PARTS.values() for law in laws} <= LAWS_ES.keys()
    assert PART_SENTENCES.keys() <= SENTENCES.keys()


def test_a_spanish_report_holds_no_english():
    console = Console(file=io.StringIO(), width=200, color_system=None)
    show(check(part_wrong.clip_each, "clip_gradients"), console, "es")
    text = console.file.getvalue()
    assert "Cada tensor tiene una norma propia" in text
    assert "property" not in text
    assert not [law for laws in PARTS.values() for each in laws if (law := each.__name__.replace("_", " ")) in text]


def test_what_cannot_be_called_is_refused_with_a_call_that_would_do():
    for function, like, expected in (
        (lambda q, r, s: q, "top_k", "top_k(logits, k)"),
        (lambda params, grads: None, "adamw_step", "adamw(params, grads, state"),
        (lambda logits, k: 1 / 0, "top_k", "ZeroDivisionError"),
        (lambda path, params: None, "save_checkpoint", "load_checkpoint"),
    ):
        with pytest.raises(ValueError, match="expected") as refused:
            check(function, like)
        assert expected in str(refused.value)
        assert "\n" not in str(refused.value)


def test_strict_asks_for_what_the_reference_alone_promises():
    assert check(part_right.forbid, "ban").passed
    assert not check(part_right.forbid, "ban", strict=True).passed
    assert not check(part_right.top_k_ties, "top_k", strict=True).passed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["part_right.py:adamw_one", "--like", "adamw_step"], 0, "agrees"),
        (["part_wrong.py:ppl_base_2", "--like", "perplexity", "--lang", "es"], 1, "2 elevado a una pérdida"),
        (["part_right.py:ppl", "--like", "top_k"], 2, "top_k(logits, k)"),
        (["part_right.py:ppl", "--like", "adamw_stp"], 2, "did you mean 'adamw_step'?"),
        (["part_right.py:ppl", "--like", "perplexity", "--dtype", "float32"], 2, "--dtype is for an op"),
    ],
)
def test_the_command_judges_a_part(arguments, code, said, capsys):
    spec, *rest = arguments
    try:
        found = main([f"{FILES}/{spec}", *rest])
    except SystemExit as ended:
        found = ended.code
    told = capsys.readouterr()
    assert found == code
    assert said in " ".join((told.out + told.err).split())


def test_a_part_that_hangs_or_exits_is_wrong(tmp_path, capsys):
    path = tmp_path / "naughty.py"
    path.write_text(
        "import os\ndef hangs(loss):\n    while True: pass\ndef exits(loss):\n    os._exit(3)\n", encoding="utf-8"
    )
    for name in ("hangs", "exits"):
        assert main([f"{path}:{name}", "--like", "perplexity", "--time-limit", "1", "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert told["verdict"] == "wrong"
        assert told["findings"][0]["code"] in ("hangs", "ends_process")


def test_prints_of_a_candidate_stay_out_of_the_report():
    def loud(loss):
        print("noise")
        return part_right.ppl(loss)

    told = io.StringIO()
    with redirect_stdout(told):
        assert check(loud, "perplexity").passed
    assert told.getvalue() == ""
    assert sys.stdout is not told
