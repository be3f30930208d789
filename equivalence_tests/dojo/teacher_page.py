"""The teacher's report as one page: it needs no network, reads well in light and dark, and prints."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.progress import State
from equivalence_tests.dojo.sources import source_of
from equivalence_tests.dojo.words import word

if TYPE_CHECKING:
    from equivalence_tests.dojo.teacher import Learner

STYLE = """
:root { color-scheme: light dark; --back: #fbfaf7; --ink: #22252b; --soft: #6a6f78; --line: #dcd9d0; --row: #f2f0ea;
  --good: #1d7a4f; --some: #a66a00; --bar: #1d7a4f; }
@media (prefers-color-scheme: dark) { :root { --back: #17191d; --ink: #e6e4de; --soft: #9aa0aa; --line: #34383f;
  --row: #1f2227; --good: #58c896; --some: #e0a84a; --bar: #58c896; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 100rem; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
p { margin: .25rem 0; color: var(--soft); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; margin-top: 1.25rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .45rem; text-align: center; border-bottom: 1px solid var(--line); }
thead th { font-weight: 600; vertical-align: bottom; background: var(--back); }
thead .name span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; font-weight: 500; }
tbody tr:nth-child(odd) { background: var(--row); }
th.who { position: sticky; left: 0; text-align: left; white-space: nowrap; background: var(--back); z-index: 1; }
tbody tr:nth-child(odd) th.who { background: var(--row); }
tfoot th, tfoot td { border-bottom: 0; color: var(--soft); font-weight: 600; }
.passed { color: var(--good); } .tried { color: var(--some); } .open { color: var(--soft); opacity: .55; }
td small { display: block; color: var(--soft); font-size: .7rem; line-height: 1; min-height: .75rem; }
.bar { display: inline-block; width: 7rem; height: .5rem; border-radius: 4px; background: var(--line); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--bar); }
section { margin-top: .9rem; }
ul { margin: .25rem 0 0; padding-left: 1.1rem; } li { margin: .2rem 0; } code { font-size: .9em; }
@media print { body { padding: 0; max-width: none; font-size: 9px; background: none; }
  .scroll { overflow: visible; border: 0; } th, td { padding: 1px 2px; }
  h2, tr { break-inside: avoid; } @page { size: A4 landscape; margin: 10mm; } }
"""


def page(learners: Sequence[Learner], language: str, recheck: bool) -> str:
    """The whole page."""
    title = word("report", language)
    how = word("rechecked" if recheck else "as_recorded", language)
    counts = word("class", language, learners=len(learners), katas=len(KATAS), how=how)
    return f"""<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head>
<body><main><h1>{escape(title)}</h1><p>{escape(counts)}</p><p>{escape(word("legend", language))}</p>
<div class="scroll" tabindex="0"><table><thead><tr><th class="who">{escape(word("learner", language))}</th><th></th>
{_heads(language)}</tr></thead>
<tbody>{"".join(_row(learner, language) for learner in learners)}</tbody>
<tfoot><tr><th class="who">{escape(word("share", language))}</th><td></td>{_shares(learners)}</tr></tfoot></table></div>
<h2>{escape(word("last", language).capitalize())}</h2>{"".join(_findings(learner, language) for learner in learners)}
</main></body></html>
"""


def _heads(language: str) -> str:
    cells = []
    for kata in KATAS:
        title = escape(source_of(kata).title(language), quote=True)
        cells.append(f'<th class="name" scope="col" title="{title}"><span>{kata.number:02} {kata.name}</span></th>')
    return "".join(cells)


def _row(learner: Learner, language: str) -> str:
    share = 100 * learner.passed / len(KATAS)
    bar = f'<span class="bar"><i style="width:{share:.0f}%"></i></span> {learner.passed}/{len(KATAS)}'
    told = escape(learner.error) if learner.error else bar
    cells = "".join(_cell(kata.name, learner.progress.of(kata.name), language) for kata in KATAS)
    return f'<tr><th class="who" scope="row">{escape(learner.name)}</th><td>{told}</td>{cells}</tr>\n'


def _cell(name: str, state: State, language: str) -> str:
    kind, sign = ("passed", "●") if state.passed else ("tried", "◐") if state.attempts else ("open", "○")
    counts = f"{word('attempts', language)}: {state.attempts}, {word('hints', language)}: {state.hints}"
    said = f"{name}: {word(kind, language)}; {counts}. {state.last.get(language, '')}"
    small = f"{state.attempts or ''}{'?' * state.hints}"
    title = escape(said, quote=True)
    return f'<td class="{kind}" title="{title}" aria-label="{title}">{sign}<small>{small}</small></td>'


def _shares(learners: Sequence[Learner]) -> str:
    counts = [sum(learner.progress.of(kata.name).passed for learner in learners) for kata in KATAS]
    return "".join(f"<td>{count}</td>" for count in counts)


def _findings(learner: Learner, language: str) -> str:
    """What the open katas of a learner last said."""
    open_ones = [(kata, learner.progress.of(kata.name)) for kata in KATAS]
    items = "".join(
        f"<li><code>{kata.file}</code> {escape(state.last[language])}</li>"
        for kata, state in open_ones
        if not state.passed and language in state.last
    )
    return f"<section><strong>{escape(learner.name)}</strong><ul>{items}</ul></section>" if items else ""
