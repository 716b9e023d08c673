"""Which tokens count, on tokenizers of known splits."""

import pytest

from cast.errors import CastError
from cast.verifier import accepted_answers, question_text
from cast.verifier.answer_tokens import answer_tokens


def test_question_text_is_the_evaluators():
    assert question_text("Is the pig green?") == "Is the pig green? Answer in one word."


def test_variants_are_the_evaluators():
    assert accepted_answers("Yes", "official") == ("Yes", "yes", " Yes", " yes")
    assert accepted_answers("three") == ("three", "Three", " three", " Three", "3", " 3")


@pytest.mark.parametrize("answer", ["perhaps", "eleven", ""])
def test_unknown_answer_is_refused(answer):
    with pytest.raises(CastError, match="no accepted variants; allowed: yes, zero, one"):
        accepted_answers(answer)
    with pytest.raises(CastError, match="Did you mean 'three'"):
        accepted_answers("thre")


TABLE = {
    "three": [1],
    "Three": [2, 3],
    " three": [4],
    " Three": [5, 3],
    "3": [6],
    " 3": [7, 6],
}


def test_official_takes_every_first_token():
    assert answer_tokens("three", "official", TABLE.__getitem__).ids == (1, 2, 4, 5, 6, 7)


def test_strict_takes_single_tokens_once():
    assert answer_tokens("three", "strict", TABLE.__getitem__).ids == (1, 4, 6)
    same = {variant: [9] for variant in TABLE}
    assert answer_tokens("three", "strict", same.__getitem__).ids == (9,)
    assert answer_tokens("three", "official", same.__getitem__).ids == (9,) * 6


def test_no_single_token_is_an_error():
    with pytest.raises(CastError, match="no single-token variant"):
        answer_tokens("three", "strict", lambda text: [1, 2])
