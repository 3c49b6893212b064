"""Histories of memory that a machine makes up: none of them breaks a promise."""

import pytest

from memory import evidence
from tests.memory import machine, surroundings
from tests.memory.machine import MemoryMachine, MemoryMachineWithLangmem
from tests.memory.surroundings import WISHES

pytestmark = [pytest.mark.django_db, pytest.mark.faults]


def test_no_history_brings_back_what_was_cleared() -> None:
    machine.search(MemoryMachine, histories=7, steps=30)


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_no_history_out_of_many_brings_back_what_was_cleared() -> None:
    machine.search(MemoryMachineWithLangmem, histories=300, steps=50, shrink=True)


@pytest.mark.parametrize("text", WISHES)
def test_what_the_machine_says_bears_out_its_wishes(text: str) -> None:
    accepted = evidence.accepted(text, surroundings.stated(text))
    assert {wish.field: wish.value for wish in accepted} == WISHES[text]
