"""`gemelos train` and `gemelos generate`, as somebody at a terminal has them."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata

import numpy as np
import pytest
from rich.console import Console

import reference_numpy
from equivalence_tests import generate, kills, model_pictures, train, trajectory
from equivalence_tests.__main__ import main
from equivalence_tests.train import ATTENTION, CHECKPOINT, GRADIENTS, LOG, PICTURE
from reference_numpy import checkpoint, fast
from reference_numpy.checkpoint import load_checkpoint, save_checkpoint
from reference_numpy.corpus import corpus_path

SMALL = ["--embedding-dim", "16", "--head-dim", "8", "--num-heads", "2", "--num-layers", "1", "--batch-size", "8"]
SMALL += ["--context-window", "32", "--seq-length", "33", "--epochs", "1", "--checkpoint-every", "3"]
RNN = ["--model", "rnn", "--embedding-dim", "16", "--batch-size", "8", "--seq-length", "33", "--epochs", "1"]


@pytest.fixture(autouse=True)
def _quick_pictures(monkeypatch):
    """The gradients are drawn in the tests of their pictures, and slowly."""
    monkeypatch.setattr(train, "norms_picture", lambda rows, path: path.touch())
    monkeypatch.setattr(train, "attention_gradient_picture", lambda tokens, found, path: path.touch())


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder with the first tales in it, and we are there."""
    monkeypatch.delenv("COLUMNS", raising=False)  # a worker of pytest-xdist may have it: long lines would be cut
    monkeypatch.chdir(tmp_path)
    lines = corpus_path().read_text("utf-8").splitlines(keepends=True)[:20]
    (tmp_path / "tales.txt").write_text("".join(lines), "utf-8")
    return tmp_path


def run(*arguments):
    return main([str(argument) for argument in arguments])


def trained(*arguments):
    return run("train", "--data", "tales.txt", *(arguments or SMALL))


def rows(folder):
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


def test_training_writes_a_checkpoint_a_log_and_pictures(place, capsys):
    assert trained() == 0
    out = capsys.readouterr().out
    folder = place / "runs" / "gpt"
    assert sorted(path.name for path in folder.iterdir()) == sorted([CHECKPOINT, LOG, PICTURE, GRADIENTS, ATTENTION])
    saved = load_checkpoint(folder / CHECKPOINT)
    log = rows(folder)
    steps = [row for row in log if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, len(steps) + 1))
    assert saved.training["step"] == saved.state["step"] == len(steps)
    assert abs(steps[0]["loss"] - np.log(saved.tokenizer.vocab_size)) < 0.1  # logits begin near 0, see init_gpt
    assert log[-1]["perplexity"] == pytest.approx(np.exp(log[-1]["held_out_loss"]), rel=1e-12)
    assert (folder / PICTURE).read_bytes().startswith(b"\x89PNG")
    assert f"{folder.relative_to(place) / ATTENTION}" in out
    for word in ("embedding_dim 16", "learning_rate 0.001", "strip_accents True", "unknown", "held out", "perplexity"):
        assert word in out, word


def test_generating_goes_on_from_the_prompt_without_special_tokens(place, capsys):
    assert trained() == 0
    capsys.readouterr()
    assert run("generate", "--samples", 3, "--max-tokens", 20) == 0
    one = capsys.readouterr().out
    assert run("generate", "--samples", 3, "--max-tokens", 20) == 0
    assert capsys.readouterr().out == one
    texts = one.splitlines()
    assert len(texts) >= 3
    assert one.startswith("Habia una vez")
    assert "<" not in one
    assert run("generate", "--samples", 3, "--max-tokens", 20, "--seed", 1) == 0
    assert capsys.readouterr().out != one


@pytest.mark.parametrize("model", [SMALL, RNN], ids=["gpt", "rnn"])
def test_all_twins_generate_the_same_tokens(place, capsys, model):
    assert trained(*model, "--dtype", "float64", "--out", "here") == 0
    capsys.readouterr()
    texts = []
    for twin in train.TWINS:
        options = ("--checkpoint", f"here/{CHECKPOINT}", "--samples", 2, "--max-tokens", 60, "--twin", twin)
        assert run("generate", *options, "--top-p", 0.9, "--no-repeat-ngram", 4) == 0
        texts.append(capsys.readouterr().out)
    assert len(set(texts)) == 1
    assert len(texts[0]) > 100


def test_a_prompt_is_prepared_as_the_text_was(place, capsys):
    assert trained() == 0
    capsys.readouterr()
    options = ("--max-tokens", 8, "--prompt")
    assert run("generate", *options, "Había una vez") == 0
    one = capsys.readouterr()
    assert run("generate", *options, "Habia una vez") == 0
    assert capsys.readouterr().out == one.out
    assert one.err == ""
    assert run("generate", *options, "una jirafa vez") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("una jirafa vez")
    assert "does not know jirafa" in shown.err
    assert run("generate", "--max-tokens", 8, "--prompt", "") == 0


def test_banned_words_are_never_chosen(place, capsys):
    assert trained() == 0
    capsys.readouterr()
    assert run("generate", "--max-tokens", 100, "--temperature", 3, "--ban", " ") == 0
    assert " " not in capsys.readouterr().out.removeprefix("Habia una vez").rstrip("\n")


def test_a_second_training_does_not_overwrite_the_first(place, capsys):
    assert trained() == 0
    before = (place / "runs/gpt" / CHECKPOINT).read_bytes()
    assert trained() == 2
    assert "is there already" in capsys.readouterr().err
    assert trained(*SMALL, "--seed", 9, "--overwrite") == 0
    assert (place / "runs/gpt" / CHECKPOINT).read_bytes() != before


@pytest.mark.parametrize("first", train.TWINS)
@pytest.mark.parametrize("second", train.TWINS)
def test_a_training_of_one_twin_goes_on_with_any(place, capsys, first, second):
    """Same twin: the same bytes as in one go. The other one: the same steps, as close as the twins are."""
    same = ("--dtype", "float64", "--twin", first, "--no-cosine", "--warmup-steps", 2)
    assert trained(*SMALL, *same, "--out", "whole", "--epochs", 2) == 0
    assert trained(*SMALL, *same, "--out", "parts") == 0
    assert run("train", "--resume", "--out", "parts", "--epochs", 2, "--twin", second) == 0
    one, other = (load_checkpoint(place / name / CHECKPOINT) for name in ("whole", "parts"))
    if first == second:
        assert (place / "whole" / LOG).read_bytes() == (place / "parts" / LOG).read_bytes()
        assert (place / "whole" / CHECKPOINT).read_bytes() == (place / "parts" / CHECKPOINT).read_bytes()
    assert trajectory.largest_gap(one.params, other.params)[1] < trajectory.LIMITS["float64"]
    assert one.state["step"] == other.state["step"]


def test_resuming_a_finished_training_changes_nothing(place, capsys):
    assert trained() == 0
    before = {name: (place / "runs/gpt" / name).read_bytes() for name in (CHECKPOINT, LOG)}
    assert run("train", "--resume") == 0
    assert before == {name: (place / "runs/gpt" / name).read_bytes() for name in (CHECKPOINT, LOG)}


def test_a_half_written_line_of_the_log_is_dropped(place, capsys):
    assert trained() == 0
    log = place / "runs/gpt" / LOG
    whole = log.read_bytes()
    with log.open("a") as file:
        file.write('{"step": 99, "loss": 1.0}\n{"step": 1')
    assert run("train", "--resume") == 0
    assert log.read_bytes() == whole


BAD_TRAINING = [
    (["--data", "nowhere.txt"], "nowhere.txt"),
    (["--data", "empty.txt"], "empty.txt"),
    (["--data", "latin1.txt"], "not UTF-8"),
    (["--data", "."], "folder"),
    (["--data", "columns.csv"], "text"),
    (["--batch-size", "0"], "batch_size: 0 came, expected at least 1"),
    (["--epochs", "two"], "--epochs"),
    (["--num-layers", "0"], "num_layers is 0, expected at least 1"),
    (["--seq-length", "1"], "seq_length: 1 came"),
    (["--seq-length", "500"], "--seq-length: 500 came, expected at most context_window + 1"),
    (["--dropout", "1.5"], "dropout is 1.5"),
    (["--learning-rate", "-1"], "learning_rate: -1.0 came"),
    (["--held-out", "1"], "held_out: 1.0 came"),
    (["--min-frequency", "100000"], "min_frequency"),
    (["--model", "rnn", "--num-heads", "2"], "--num-heads"),
    (["--device", "cuda"], "--device: cuda came, expected cpu"),
    (["--twin", "torch", "--device", "tpu"], "--device"),
    (["--resume", "--out", "nowhere"], "nowhere"),
    (["--out", "tales.txt/x"], "tales.txt/x"),
    (["--colour", "red"], "--colour"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD_TRAINING, ids=lambda value: "_".join(value) if value else "")
def test_a_wrong_argument_of_train_is_said_in_one_line(place, capsys, arguments, said):
    (place / "empty.txt").write_text("\n \n")
    (place / "latin1.txt").write_bytes("ca\xf1a\n".encode("latin-1"))
    (place / "columns.csv").write_text("a,b\n1,2\n")
    data = [] if "--data" in arguments else ["--data", "tales.txt"]
    try:
        code = run("train", *data, *arguments)
    except SystemExit as stopped:
        code = stopped.code
    shown = capsys.readouterr()
    assert code == 2
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("gemelos train: ")
    assert said in shown.err
    assert shown.out == ""


BAD_GENERATION = [
    (["--prompt", "xyzzy qwerty"], "prompt"),
    (["--temperature", "-1"], "temperature is -1.0"),
    (["--top-k", "0"], "top_k: 0 came"),
    (["--top-k", "some"], "--top-k"),
    (["--top-p", "1.5"], "top_p is 1.5"),
    (["--repetition-penalty", "0"], "repetition_penalty"),
    (["--penalty", "twice"], "penalty"),
    (["--samples", "0"], "samples: 0 came"),
    (["--seed", "-1"], "seed: -1 came"),
    (["--ban", "xyzzy"], "--ban: 'xyzzy' came"),
    (["--checkpoint", "nowhere"], "nowhere"),
    (["--checkpoint", "tales.txt"], "tales.txt"),
    (["--checkpoint", "."], "."),
    (["--checkpoint", "cut"], "cut"),
    (["--checkpoint", "damaged"], "damaged"),
    (["--checkpoint", "other"], "other"),
    (["--checkpoint", "unfit"], "unfit"),
    (["--device", "cuda"], "--device"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a small trained model, and files that are none."""
    folder = tmp_path_factory.mktemp("model")
    lines = corpus_path().read_text("utf-8").splitlines(keepends=True)[:20]
    (folder / "tales.txt").write_text("".join(lines), "utf-8")
    assert main(["train", "--data", str(folder / "tales.txt"), "--out", str(folder), *SMALL]) == 0
    whole = (folder / CHECKPOINT).read_bytes()
    (folder / "cut").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[-1000] ^= 1
    (folder / "damaged").write_bytes(bytes(flipped))
    saved = load_checkpoint(folder / CHECKPOINT)
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3)}, folder / "other")
    saved.config["num_layers"] = 2  # parameters of another configuration
    save_checkpoint(folder / "unfit", saved)
    return folder


@pytest.mark.parametrize(("arguments", "said"), BAD_GENERATION, ids=lambda value: "_".join(value) if value else "")
def test_a_wrong_argument_of_generate_is_said_in_one_line(model, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(model)
    own = [] if "--checkpoint" in arguments else ["--checkpoint", CHECKPOINT]
    try:
        code = run("generate", *own, *arguments)
    except SystemExit as stopped:
        code = stopped.code
    shown = capsys.readouterr()
    assert code == 2
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("gemelos generate: ")
    assert said in shown.err
    assert shown.out == ""


def test_top_k_beyond_the_vocabulary_is_the_vocabulary(model, monkeypatch, capsys):
    monkeypatch.chdir(model)
    texts = []
    for k in ("100000", "none"):
        assert run("generate", "--checkpoint", CHECKPOINT, "--top-k", k, "--max-tokens", 30) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_the_pictures_of_a_prompt(model, monkeypatch, tmp_path, capsys):
    """The maps that are drawn are those of the model: rows that sum to 1, nothing above the diagonal, for both twins."""
    monkeypatch.chdir(model)
    seen = {}
    monkeypatch.setattr(
        generate, "heads_picture", lambda tokens, maps, path: seen.setdefault("maps", []).append((tokens, maps))
    )
    right = generate.temperature_picture

    def bars(path, logits, names):
        seen["bars"] = (logits, names)
        right(path, logits, names)

    monkeypatch.setattr(generate, "temperature_picture", bars)
    for twin in train.TWINS:
        pictures = ("--maps", tmp_path / "maps.png", "--temperatures", tmp_path / "bars.png")
        assert run("generate", "--checkpoint", CHECKPOINT, "--twin", twin, "--max-tokens", 1, *pictures) == 0
    (tokens, maps), *others = seen["maps"]
    assert all(np.array_equal(A, B) for _, theirs in others for A, B in zip(maps, theirs, strict=True))
    assert tokens == ["<BOS>", "Habia", " ", "una", " ", "vez"]
    assert [A.shape for A in maps] == [(2, 6, 6)]
    for A in maps:
        assert (A[:, *np.triu_indices(6, 1)] == 0.0).all()
        assert np.abs(A.sum(-1) - 1.0).max() < 7 * 2.0**-24
    assert seen["bars"][0].shape == (10,)
    assert not set(seen["bars"][1]) & {"<BOS>", "<UNK>", "<PAD>"}
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.undo()
    drawn = tmp_path / "drawn.png"
    assert run("generate", "--checkpoint", model / CHECKPOINT, "--max-tokens", 1, "--maps", drawn) == 0
    assert drawn.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()
    assert run("generate", "--checkpoint", model / CHECKPOINT, "--maps", tmp_path / "no" / "where.png") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_rnn_has_no_maps(place, capsys):
    assert trained(*RNN, "--out", "here") == 0
    assert run("generate", "--checkpoint", f"here/{CHECKPOINT}", "--maps", "maps.png") == 2
    assert "--maps: it came for an rnn" in capsys.readouterr().err


def test_the_sources_figure_of_temperatures(tmp_path):
    model_pictures.temperature_picture(tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5000


def test_a_checkpoint_of_another_text_is_not_resumed(place, capsys):
    assert trained() == 0
    (place / "others.txt").write_text("un gato\nun perro\nun pato\n")
    capsys.readouterr()
    assert run("train", "--resume", "--data", "others.txt") == 2
    assert "is not the text that the checkpoint was trained on" in capsys.readouterr().err
    for flags in (("--embedding-dim", 8), ("--seed", 1), ("--lower",), ("--learning-rate", 1)):
        assert run("train", "--resume", *flags) == 2
        assert "came with --resume" in capsys.readouterr().err


def test_a_full_disk_leaves_the_last_good_checkpoint(place, capsys, monkeypatch):
    assert trained(*SMALL, "--out", "full") == 0
    good = (place / "full" / CHECKPOINT).read_bytes()
    right, calls = checkpoint.os.replace, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return right(*arguments)

    monkeypatch.setattr(checkpoint.os, "replace", full)
    capsys.readouterr()
    assert run("train", "--resume", "--out", "full", "--epochs", 3) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert "No space left" in shown.err
    monkeypatch.undo()
    os.chdir(place)
    assert load_checkpoint(place / "full" / CHECKPOINT).training["step"] > 0
    assert (place / "full" / CHECKPOINT).read_bytes() != good  # of the first save that had room
    assert run("train", "--resume", "--out", "full", "--epochs", 3) == 0


def test_ctrl_c_saves_and_the_rest_is_as_if_nothing_had_been(place):
    command = [sys.executable, "-m", "equivalence_tests", "train", "--out"]
    data = ["--data", "tales.txt", *SMALL, "--epochs", "4"]
    subprocess.run([*command, "whole", *data], capture_output=True, check=True)
    process = subprocess.Popen([*command, "cut", *data], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (place / "cut" / LOG).exists() or not (place / "cut" / LOG).stat().st_size:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Stopped after step" in out
    assert err == ""
    subprocess.run([*command, "cut", "--resume"], capture_output=True, check=True)
    for name in (CHECKPOINT, LOG):
        assert (place / "whole" / name).read_bytes() == (place / "cut" / name).read_bytes()


def test_sigterm_ends_a_training_as_ctrl_c_does(place, capsys, monkeypatch):
    """Schedulers send it, and kill some seconds later."""
    right = train.Log.add

    def add(log, row):
        right(log, row)
        if row["step"] == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(train.Log, "add", add)
    assert trained(*SMALL, "--out", "cut") == 143
    assert "Stopped after step 2" in capsys.readouterr().out
    assert load_checkpoint(place / "cut" / CHECKPOINT).training["step"] == 2
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_two_trainings_into_one_folder_are_told_at_the_start(place, capsys):
    (place / "one").mkdir()
    with train.locked(place / "one"):
        assert trained(*SMALL, "--out", "one") == 2
    shown = capsys.readouterr()
    assert shown.err == "gemelos train: --out: another training writes into one now, expected another folder\n"
    assert not list((place / "one").iterdir())
    with train.locked(place / "one"):  # the lock is gone with the process that had it
        pass


def test_a_pipe_is_no_data(place, capsys):
    os.mkfifo(place / "pipe")
    assert run("train", "--data", "pipe", *SMALL) == 2
    assert "--data: pipe is a pipe or a device, expected a file" in capsys.readouterr().err


def test_the_prompt_that_is_suggested_is_of_the_data(place, capsys, monkeypatch):
    (place / "other.txt").write_text(
        "One \U0001f600 two three four five six.\n" * 3 + "One two three four!\n" * 40, "utf-8"
    )
    monkeypatch.setattr(train, "run", lambda setup, *_: (10**9, []))
    assert run("train", "--data", "other.txt", *SMALL, "--out", "other") == 0
    suggested = capsys.readouterr().out.rpartition("--prompt ")[2].strip().strip("'")
    assert suggested == "One two three"
    assert trained(*SMALL) == 0
    assert "--prompt 'Habia una vez'" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--maps", "--gradients", "--temperatures"])
@pytest.mark.parametrize("value", ["", "folder"])
def test_a_folder_is_no_name_of_a_picture(flag, value, place, capsys):
    (place / "folder").mkdir()
    assert run("generate", flag, value) == 2
    assert f"{flag}: {value or '.'} is a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dojo", "report", "nobody", "--html", ""], "--html: '' came, expected the name of a file"),
        (["dojo", "report", "nobody", "--html", "."], "--html: '.' came, expected the name of a file"),
        (["dojo", "start", "tales.txt/katas"], "Not a directory"),
        (["dojo", "check", "--time-limit", "inf"], "--time-limit: inf came"),
        (["bench", "--seconds", "inf"], "--seconds: inf came, expected seconds above 0"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, says, place, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert says in shown.err
    assert len(shown.err.splitlines()) == 1


def test_the_version_is_told(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"gemelos {metadata.version('gemelos')}\n"


def test_a_terminal_without_accents_is_enough(place):
    run("dojo", "start", "katas", "--lang", "es")
    command = [sys.executable, "-m", "equivalence_tests", "dojo", "list", "--folder", "katas"]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_kill_loses_nothing(capsys):
    assert kills.main(["--kills", "1"]) == 0
    out = capsys.readouterr().out
    assert all(f"{twin}: 1 kills in" in out for twin in train.TWINS)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("open(out + '/checkpoint.safetensors', 'w').write('x')", "checkpoint"),
        ("raise SystemExit(3)", "ended with 3"),
    ],
)
def test_a_lost_checkpoint_is_seen(tmp_path, monkeypatch, script, said):
    """What the kills look for: a broken file, a training that cannot go on."""
    code = f"import sys, os, time; out = sys.argv[1]; os.makedirs(out, exist_ok=True); {script}; time.sleep(60)"
    monkeypatch.setattr(kills, "command", lambda twin, data, folder, resume: [sys.executable, "-c", code, str(folder)])

    class Never:
        def randrange(self, stop):
            return 0

        def uniform(self, low, high):
            return 1.0

    with pytest.raises(kills.Damaged, match=said):
        kills.killed("numpy", tmp_path / "x", tmp_path / "y", Never())


def test_a_changed_bit_is_seen(monkeypatch):
    code = "import sys, os; out = sys.argv[1]; os.makedirs(out, exist_ok=True); "
    code += "[open(os.path.join(out, name), 'w').write(out) for name in ('checkpoint.safetensors', 'log.jsonl')]"
    monkeypatch.setattr(kills, "command", lambda twin, data, folder, resume: [sys.executable, "-c", code, str(folder)])
    monkeypatch.setattr(kills, "load_checkpoint", lambda path: None)
    with pytest.raises(kills.Damaged, match="differs from that of an uninterrupted training"):
        kills.try_twin("numpy", 1, 0, Quiet())


class Quiet:
    def add_task(self, *_, **__):
        return 0

    def advance(self, task):
        pass


def test_the_trajectory_says_when_the_twins_part(place, monkeypatch):
    page = io.StringIO()
    assert trajectory.trajectory(2, Console(file=page, width=100)) == 0
    assert "Proved" in page.getvalue()
    report = json.loads((place / "results/trajectory.json").read_text())
    assert set(report["curves"]) == {"gpt, float64", "rnn, float64", "gpt, float32", "rnn, float32"}
    for name in ("trajectory.png", "losses.png"):
        assert (place / "results" / name).stat().st_size > 5000
    monkeypatch.setattr(trajectory, "LIMITS", {"float64": 0.0, "float32": 1e-3})
    assert trajectory.trajectory(2, Console(file=page, width=100)) == 1
    assert "APART: gpt, float64; rnn, float64" in page.getvalue()


def test_the_default_is_the_fast_twin_and_the_textbook_is_asked_for_by_name(place, capsys, monkeypatch):
    """What the command computes with, seen at the op that is timed: the loss and its gradients."""
    used = []
    for module, name in ((fast, "gpt_loss_gradients"), (reference_numpy, "gpt_loss_backward")):
        right = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, right=right, name=name: used.append(name) or right(*args))
    for options, name in (((), "gpt_loss_gradients"), (("--twin", "reference"), "gpt_loss_backward")):
        used.clear()
        assert trained(*SMALL, *options, "--overwrite") == 0
        assert set(used) == {name}
        assert run("generate", "--max-tokens", 2, *options) == 0


def test_the_textbook_trains_where_the_fast_twin_cannot_be_imported(place):
    """threadpoolctl is what it needs beside NumPy, and nobody else here does."""
    code = "import sys; sys.modules['threadpoolctl'] = None; from equivalence_tests.__main__ import main; "
    code += "sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "train", "--data", "tales.txt", *SMALL, "--twin", "reference"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_torch_the_numpy_twin_trains_and_the_other_is_asked_for_in_vain(place, capsys, monkeypatch):
    for module in (train, generate):
        monkeypatch.setattr(module, "has_torch", lambda: False)
    assert trained() == 0
    assert trained(*SMALL, "--twin", "torch", "--out", "other") == 2
    assert "torch is not installed" in capsys.readouterr().err
    assert run("generate", "--twin", "torch") == 2
    assert "torch is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "generate"])
def test_help_names_every_flag_with_its_default(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(command, "--help")
    assert stopped.value.code == 0
    page = capsys.readouterr().out
    flags = {"train": ["--learning-rate", "--context-window", "--min-frequency"], "generate": ["--top-k", "--min-p"]}
    for flag in flags[command]:
        assert flag in page
    assert "default: 0.001" in page or "default: 0.8" in page
