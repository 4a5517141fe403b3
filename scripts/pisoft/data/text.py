"""Splitting running text into sentences, with rules small enough to read."""

from __future__ import annotations

import re
from bisect import bisect_left

# A sentence may end at a terminator with its closing quotes or brackets, before white space, or
# at a blank line. CJK terminators need no white space.
_BOUNDARY = re.compile(
    # Looked for where a run of these characters begins, and nowhere inside it: in linear time.
    r"""(?<![.!?…؟।])(?P<stop>[.!?…؟।]++)(?P<closing>["'”’»)\]]*+)(?=\s)"""
    r"""|[。！？]["'”’»）」』]*+|(?<!\s)(?=[^\S\n]*+\n[^\S\n]*+\n)"""
)
_LAST_WORD = re.compile(r"[^\s(\[\"“‘«]+$")
_LONGEST_WORD = 100  # characters that are looked at; no abbreviation has as many
_NEXT_WORD = re.compile(r"\s*[\"'“‘«(\[]*(\w+)")
_SINGLE_LETTER = re.compile(r"[^\W\d_]")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # U.S, Ph.D, e.g


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# After these, capitalised as here, a sentence goes on whatever follows.
_TITLES = _words(
    "Mr Mrs Ms Mx Dr Prof Rev Fr Hon St Mt Ft Gen Col Maj Capt Lt Cmdr Adm Sgt Cpl Gov Sen Rep "
    "Pres Messrs Mme Mlle"
)
# After these too; single small letters (c., b., d., v.) are handled as a class.
_NEVER_LAST = _words("vs cf ca approx fl nee née e.g i.e viz")
# After these a sentence goes on if a number follows.
_BEFORE_NUMBERS = _words("no nos vol vols p pp fig figs eq eqs op art ch sec")
# After these a sentence goes on unless a word follows that usually begins one.
_MAYBE_LAST = _words(
    "Jr Sr Esq Inc Ltd Co Corp Bros Dept Univ Assn Est Ave Blvd Rd Jan Feb Mar Apr Jun Jul Aug "
    "Sep Sept Oct Nov Dec Mon Tue Wed Thu Fri Sat Sun Ed Eds etc al ed eds trans"
)
_STARTERS = _words(
    "he she it they we i you his her its their our my the a an this that these those there in on "
    "at by as after before during since when while although though however from for with born "
    "following until if but and both some many most all one two no what who why how"
)


def first_sentences(text: str, n: int) -> str:
    """Return the beginning of a text that holds its first `n` sentences.

    The result is a prefix of the text without white space at its end, so that character offsets
    stay true. Initials ("John F. Kennedy"), titles, dates ("c. 1850", "b. 12 Jan. 1901"), decimal
    numbers, and what stands in brackets do not end a sentence.

    Args:
        text: running text.
        n: how many sentences, at least 1.
    """
    found = 0
    begin = len(text) - len(text.lstrip())
    brackets = _Brackets(text)
    for boundary in _BOUNDARY.finditer(text):
        end = boundary.end()
        if end <= begin or not _ends_sentence(text, boundary, brackets):
            continue
        found += 1
        if found == n:
            return text[:end].rstrip()
    return text.rstrip()


def _ends_sentence(text: str, boundary: re.Match[str], brackets: _Brackets) -> bool:
    """Tell a sentence's end from a full stop that means something else."""
    if boundary["stop"] is None:  # a CJK terminator, or a blank line after unfinished text
        return bool(boundary.group()) or not _already_ended(text, boundary.start())
    if brackets.hold(boundary.end()):
        return False
    following = _NEXT_WORD.match(text, boundary.end())
    if following is None:
        return True
    next_word = following[1]
    if next_word[0].islower():
        return False
    if boundary["stop"] != "." or boundary["closing"]:
        return True
    return not _goes_on(text, boundary.start(), next_word, text.startswith(".", following.end()))


def _goes_on(text: str, stop: int, next_word: str, dotted: bool) -> bool:
    """Whether the full stop at `stop` belongs to an abbreviation, initial or list number."""
    last = _LAST_WORD.search(text, max(0, stop - _LONGEST_WORD), stop)
    word = last[0].lstrip("'") if last else ""  # but "Mary's" is one word
    if word in _TITLES or word.lower() in _NEVER_LAST:
        return True
    if word.lower() in _BEFORE_NUMBERS:
        return next_word[0].isdigit()
    single_letter = _SINGLE_LETTER.fullmatch(word) is not None
    if single_letter and word.islower():
        return True
    if single_letter or _DOTTED.fullmatch(word) or word in _MAYBE_LAST:
        return next_word.lower() not in _STARTERS or dotted
    return word.isdecimal() and len(word) <= 2 and _begins_line(text[: stop - len(word)])


def _begins_line(before: str) -> bool:
    """Whether nothing but white space stands between a position and the line's beginning."""
    return not before.rpartition("\n")[2].strip()


def _already_ended(text: str, position: int) -> bool:
    """Whether the text before a blank line ends with a terminator that was counted before."""
    before = text[:position].rstrip().rstrip("\"'”’»)]）」』")
    return before.endswith(tuple(".!?…؟।。！？"))


class _Brackets:
    """Where a text has round and square brackets."""

    def __init__(self, text: str) -> None:
        self._places = {
            bracket: [found.start() for found in re.finditer(re.escape(bracket), text)]
            for bracket in "()[]"
        }

    def hold(self, position: int) -> bool:
        """Whether a position lies within a pair of brackets that is closed later."""
        for opening, closing in ("()", "[]"):
            before = {b: bisect_left(self._places[b], position) for b in (opening, closing)}
            after = {b: len(self._places[b]) - before[b] for b in (opening, closing)}
            depth = before[opening] - before[closing]
            if depth > 0 and after[closing] - after[opening] >= depth:
                return True
        return False
