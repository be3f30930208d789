"""`gemelos dojo` on a folder: what a learner and a teacher do, in both languages."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from equivalence_tests.dojo import progress, words
from equivalence_tests.dojo.command import main
from equivalence_tests.dojo.folder import kata_named, path_of
from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.lessons import lesson_names
from equivalence_tests.dojo.progress import State
from equivalence_tests.dojo.sources import HINTS, source_of
from equivalence_tests.dojo.verdict import SAID
from equivalence_tests.findings import LANGUAGES

ROOT = Path(__file__).parents[2]
KATA = kata_named("softmax_backward", "en")


@pytest.fixture
def dojo(tmp_path, monkeypatch, capsys):
    """The command in a folder of its own; what it printed and its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments):
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as ended:
            status = ended.code
        printed = capsys.readouterr()
        run.errors = printed.err
        return status, printed.out

    return run


def answer(folder, text, kata=KATA):
    path = path_of(folder, kata)
    path.write_text(text, encoding="utf-8")
    return path


def solved(kata=KATA):
    return source_of(kata).solution


def wrong():
    return solved().replace("(A * dA).sum", "dA.mean")


def test_a_first_lesson_of_three_minutes_in_english(dojo):
    status, said = dojo("start")
    assert status == 0
    assert f"{len(KATAS)} katas are in katas/" in said
    assert KATAS[0].file in said
    status, said = dojo("check")
    assert status == 1
    assert "not written yet" in said
    answer(Path("katas"), wrong())
    status, said = dojo("check", KATA.number)
    assert status == 1
    assert "The mean of dA is subtracted" in said
    assert re.search(r"dX, yours +right", said)
    assert f"gemelos dojo hint {KATA.number}" in said
    for step, what in enumerate(words.HINTS, 1):
        status, said = dojo("hint", "softmax_b")
        assert f"hint {step} of 4, {what[0]}" in said
    answer(Path("katas"), solved())
    status, said = dojo("check", "softmax_backward")
    assert status == 0
    assert "It is right" in said
    assert f"1 of {len(KATAS)} katas passed" in said
    assert f"Next: {KATAS[KATA.number].file}" in said
    kept = progress.read(Path("katas")).of("softmax_backward")
    assert kept == State(passed=True, attempts=2, hints=4)


def test_the_same_in_spanish(dojo):
    status, said = dojo("start", "clase", "--lang", "es")
    assert status == 0
    assert f"Hay {len(KATAS)} katas en clase/" in said
    os.chdir("clase")
    assert source_of(KATA).task["es"].splitlines()[-1] in path_of(Path(), KATA).read_text(encoding="utf-8")
    assert "Aún no está escrito" in dojo("check")[1]
    answer(Path(), wrong())
    status, said = dojo("check", KATA.file)
    assert status == 1
    assert "Se resta la media de dA" in said
    assert re.search(r"dX, lo tuyo +lo correcto", said)
    assert "pista 1 de 4" in dojo("hint", KATA.number)[1]
    assert "hint 2 of 4" in dojo("hint", KATA.number, "--lang", "en")[1]
    answer(Path(), solved())
    assert "Está bien" in dojo("check", KATA.number)[1]
    assert "1 de" in dojo("progress")[1]
    assert "superado" in dojo("list")[1]


def test_start_never_writes_over_anything(dojo):
    dojo("start", "--lang", "es")
    mine = answer(Path("katas"), "# mine\n")
    other = path_of(Path("katas"), KATAS[0])
    other.unlink()
    progress.update(Path("katas"), lambda before: before.with_state("rnn", State(True, 2, 1)))
    status, said = dojo("start")
    assert status == 0
    assert f"añadidos: 1; quedan como están: {len(KATAS)}" in said
    assert mine.read_text() == "# mine\n"
    assert other.exists()
    assert progress.read(Path("katas")).of("rnn").passed


def test_a_folder_that_is_a_file_is_refused(dojo):
    Path("katas").write_text("")
    assert dojo("start")[0] == 2
    assert "is a file" in dojo.errors


@pytest.mark.parametrize("command", ["list", "check", "hint", "progress", "watch", "reset 1", "solution 1", "lessons"])
def test_without_a_folder_it_says_what_to_do(dojo, command):
    assert dojo(*command.split())[0] == 2
    assert dojo.errors.count("\n") == 1
    assert "gemelos dojo start" in dojo.errors


def test_a_folder_is_found_from_inside_and_from_beside(dojo):
    dojo("start")
    Path("katas/deep/er").mkdir(parents=True)
    for where in (".", "katas", "deep/er"):
        os.chdir(where)
        assert dojo("progress")[0] == 0
    assert dojo("progress", "--folder", "nowhere")[0] == 2


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("softmax_bakward", "did you mean softmax_backward?"),
        ("soft", "may be softmax, softmax_jacobian"),
        ("0", f"they are 1 to {len(KATAS)}"),
        (f"{len(KATAS) + 1}", f"they are 1 to {len(KATAS)}"),
        ("zzz", "did you mean"),
    ],
)
def test_a_kata_that_is_none_is_told_the_nearest(dojo, word, says):
    dojo("start")
    assert dojo("check", word)[0] == 2
    assert says in dojo.errors


@pytest.mark.parametrize("word", [str(KATA.number), f"{KATA.number:02}", "softmax_backward", "softmax_b", KATA.file])
def test_a_kata_has_many_names(word):
    assert kata_named(word, "en") is KATA


def test_reset_keeps_every_answer(dojo):
    dojo("start")
    for text in ("# one\n", "# two\n"):
        answer(Path("katas"), text)
        assert dojo("reset", KATA.number)[0] == 0
    kept = {path.name: path.read_text() for path in Path("katas").glob("*.bak-*")}
    assert kept == {f"{KATA.file}.bak-1": "# one\n", f"{KATA.file}.bak-2": "# two\n"}
    assert path_of(Path("katas"), KATA).read_text(encoding="utf-8") == source_of(KATA).file("en")


def test_all_hints_are_shown_after_success(dojo):
    dojo("start")
    answer(Path("katas"), solved())
    dojo("check", KATA.number)
    said = dojo("hint", KATA.number)[1]
    assert all(f"hint {step} of 4" in said for step in range(1, 5))
    assert progress.read(Path("katas")).of(KATA.name).hints == 0


def test_the_solution_counts_as_all_hints(dojo):
    dojo("start")
    assert dojo("solution", KATA.number)[1].strip() == solved().strip()
    assert progress.read(Path("katas")).of(KATA.name).hints == len(HINTS)


def test_a_broken_progress_file_is_put_aside_and_work_goes_on(dojo):
    dojo("start", "--lang", "es")
    mine = answer(Path("katas"), solved())
    Path("katas/progress.json").write_text("{broken")
    status, _ = dojo("check", KATA.number)
    assert status == 0
    assert "progress.json.broken-1" in dojo.errors
    assert Path("katas/progress.json.broken-1").read_text() == "{broken"
    assert mine.read_text(encoding="utf-8") == solved()
    assert progress.read(Path("katas")).of(KATA.name).passed


def test_a_bug_that_was_not_touched_is_not_given_away(dojo):
    dojo("start")
    status, said = dojo("check", "cross_entropy_bug")
    assert status == 1
    assert "Nothing has changed yet" in said
    assert progress.read(Path("katas")).of("cross_entropy_bug").attempts == 0


def test_a_solution_that_is_right_but_slow_or_long_is_told_so(dojo):
    dojo("start")
    assert "not faster yet" in dojo("check", "embedding_faster")[1]
    assert "statements" in dojo("check", "softmax_simplified")[1]


def test_watch_judges_at_every_save_and_ends_calmly(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
    base = [sys.executable, "-m", "equivalence_tests", "dojo"]
    subprocess.run([*base, "start"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    answer(tmp_path / "katas", wrong())
    log = tmp_path / "log"
    with log.open("w") as out:
        watching = subprocess.Popen(
            [*base, "watch", str(KATA.number)], cwd=tmp_path, env=environment, stdout=out, stderr=out
        )
        try:
            _until(lambda: "The mean of dA" in log.read_text())
            answer(tmp_path / "katas", solved())
            _until(lambda: "It is right" in log.read_text())
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 0
        finally:
            watching.kill()
            watching.wait()
    assert "Your progress is kept" in log.read_text()
    assert "Traceback" not in log.read_text()


def _until(holds):
    last = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.05)


def test_plain_pytest_judges_a_folder(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    base = [sys.executable, "-m", "equivalence_tests", "dojo"]
    subprocess.run([*base, "start", "."], cwd=tmp_path, env=environment, check=True, capture_output=True)
    for kata in KATAS:
        if kata.name not in ("softmax", "softmax_backward"):
            path_of(tmp_path, kata).unlink()
    answer(tmp_path, wrong())
    answer(tmp_path, solved(kata_named("softmax", "en")), kata_named("softmax", "en"))
    plugins = ["-p", "equivalence_tests.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-m", "kata", "--strict-markers", *plugins]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert f"{KATA.file}: The mean of dA is subtracted" in done.stdout
    assert "Traceback" not in done.stdout


def test_it_needs_no_torch_and_check_needs_no_pytest(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("torch", "pytest", "hypothesis", "jupytext", "mpmath"):
        (blocked / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(blocked), str(ROOT)])}
    base = [sys.executable, "-m", "equivalence_tests", "dojo"]
    for arguments in (["start"], ["list"], ["hint"]):
        subprocess.run([*base, *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True)
    answer(tmp_path / "katas", wrong())
    command = [*base, "check", str(KATA.number)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "The mean of dA is subtracted" in done.stdout, done.stderr
    answer(tmp_path / "katas", solved())
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120).returncode == 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_lessons_come_in_the_folders_language_and_are_not_written_over(dojo, language):
    dojo("start", "--lang", language)
    status, said = dojo("lessons")
    names = lesson_names()
    assert status == 0
    assert str(len(names)) in said
    written = Path("katas/lessons")
    assert {path.stem for path in written.glob("*.py")} == set(names)
    mine = written / f"{names[0]}.py"
    mine.write_text("# mine\n", encoding="utf-8")
    assert dojo("lessons")[0] == 2
    assert mine.name in dojo.errors
    assert mine.read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.parametrize(("language", "name"), [("en", "handout"), ("es", "hoja")])
def test_the_handout_is_written_with_and_without_its_key(dojo, language, name):
    assert dojo("handout", "--lang", language)[0] == 0
    assert dojo("handout", "--lang", language, "--key")[0] == 0
    pages = {path.name: path.read_text(encoding="utf-8") for path in Path().glob("*.html")}
    assert len(pages) == 2
    assert f"{name}.html" in pages
    assert all(f"<html lang='{language}'>" in page for page in pages.values())


# The teacher's report


class Strict(HTMLParser):
    """Every tag is closed, and nothing is fetched."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "br"):
            self.open.append(tag)
        assert not any(name in ("src", "href") for name, _ in attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def a_class(dojo, tmp_path):
    for name, language in (("Ana", "es"), ("Ben & Co", "en"), ("Zoë", "en")):
        (tmp_path / "class" / name).mkdir(parents=True)
        dojo("start", tmp_path / "class" / name / "katas", "--lang", language)
    last = {"en": "dX has <b> the wrong sign", "es": "dX tiene <b> el signo contrario"}
    states = {"softmax": State(True, 2, 1), "softmax_backward": State(False, 3, 2, last)}
    progress.update(tmp_path / "class" / "Ana" / "katas", lambda before: replace(before, katas=states))
    progress.update(
        tmp_path / "class" / "Ben & Co" / "katas",
        lambda before: replace(before, katas={"rnn": State(False, 1, 0, last)}),
    )
    (tmp_path / "class" / "Zoë" / "katas" / "progress.json").write_text("{")
    return tmp_path / "class"


def test_the_report_counts_learners_by_katas(dojo, a_class):
    status, said = dojo("report", a_class, "--json")
    told = json.loads(said)
    assert status == 0
    assert told["katas"] == [kata.name for kata in KATAS]
    ana, ben, zoe = told["learners"]
    assert (ana["passed"], ben["passed"], zoe["passed"]) == (1, 0, 0)
    assert ana["katas"]["softmax_backward"]["attempts"] == 3
    assert ana["katas"]["softmax_backward"]["last"]["es"] == "dX tiene <b> el signo contrario"
    assert "progress.json" in zoe["error"]
    assert (a_class / "Zoë" / "katas" / "progress.json").read_text() == "{"  # the folder is the learner's


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_report_is_one_page_that_fetches_nothing(dojo, a_class, language):
    status, _ = dojo("report", a_class, "--html", "report.html", "--lang", language)
    page = Path("report.html").read_text(encoding="utf-8")
    assert status == 0
    reader = Strict()
    reader.feed(page)
    assert not reader.open
    assert page.count("Ben &amp; Co") == 2  # in the table, and above what was last found
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert {"en": "learner", "es": "estudiante"}[language] in page
    assert page.count('<th class="name"') == len(KATAS)
    assert "http" not in page


def test_a_recheck_trusts_no_progress_file(dojo, tmp_path, monkeypatch):
    few = tuple(kata for kata in KATAS if kata.name in ("softmax", "softmax_backward"))
    monkeypatch.setattr("equivalence_tests.dojo.teacher.KATAS", few)
    dojo("start", "mine")
    answer(tmp_path / "mine", solved())
    progress.update(tmp_path / "mine", lambda before: before.with_state("softmax", State(True, 1)))
    told = json.loads(dojo("report", "mine", "--json")[1])["learners"][0]
    assert (told["katas"]["softmax"]["passed"], told["katas"]["softmax_backward"]["passed"]) == (True, False)
    told = json.loads(dojo("report", "mine", "--json", "--recheck")[1])["learners"][0]
    assert (told["katas"]["softmax"]["passed"], told["katas"]["softmax_backward"]["passed"]) == (False, True)


def test_a_report_of_nobody_says_so(dojo, tmp_path):
    assert dojo("report", tmp_path)[0] == 2


# Words


@pytest.mark.parametrize("table", [SAID, words.WORDS, words.KINDS])
def test_both_languages_say_the_same_numbers(table):
    for key, (english, spanish) in table.items():
        assert sorted(re.findall(r"{\w+", english)) == sorted(re.findall(r"{\w+", spanish)), key
        assert english, key
        assert spanish, key


def test_the_folder_goes_on_when_the_table_has_grown(dojo):
    """A kata keeps the number that it had when the folder was made."""
    dojo("start")
    path = path_of(Path("katas"), KATA)
    shutil.move(path, path.with_name("99_softmax_backward.py"))
    answer(Path("katas"), solved())
    assert Path("katas/99_softmax_backward.py").read_text(encoding="utf-8") == solved()
    assert dojo("check", "softmax_backward")[0] == 0
