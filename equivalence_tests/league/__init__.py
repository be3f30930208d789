"""The league: every known mistake, and every right variant, judged by the policies of equality that people use.

On a usual configuration and on a rich one each policy is asked what it rejects. What it misses on the usual one and
catches on the rich one is the generator's merit, not the tolerance's.
"""

from equivalence_tests.league.report import report
from equivalence_tests.league.standings import Standing, Tally, run

__all__ = ["Standing", "Tally", "report", "run"]
