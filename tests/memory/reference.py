"""What a customer's memory must be, kept beside the product: told what was said, decided and lost, it says what may
be read. It knows nothing of jobs, keys or tables."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

READABLE = timedelta(days=29)
# How long a value counts: understood from a message (0.9, halved every 60 days, down to 0.5), or set by hand.
UNDERSTOOD_LASTS = timedelta(days=50)
SET_LASTS = timedelta(days=60)


@dataclass(frozen=True)
class Said:
    """A message of a customer: `number` counts everything that was ever said, `epoch` is when it was."""

    number: int
    pk: int
    customer: int
    text: str
    epoch: int
    at: datetime


@dataclass(frozen=True)
class Origin:
    """What set or withdrew a field last. `said` is None when it was the customer's own hand."""

    said: Said | None
    at: datetime
    withdrawn: bool = False

    def counts(self, now: datetime) -> bool:
        return not self.withdrawn and now - self.at <= (UNDERSTOOD_LASTS if self.said else SET_LASTS)

    def is_newer_than(self, said: Said) -> bool:
        return self.said is not None and self.said.number > said.number


@dataclass
class Memory:
    """One customer's. `content` is None where there is none, `lost` where the store no longer has it."""

    consent: bool = False
    epoch: int = 0
    revision: int = 0
    # How often the customer has changed it by hand.
    changes: int = 0
    content: dict[str, str] | None = None
    expires: datetime | None = None
    lost: bool = False
    origins: dict[str, Origin] = field(default_factory=dict)

    def snapshot(self) -> int | None:
        """Return what an answer rests on: without consent nothing."""
        return self.revision if self.consent else None

    def has_content(self, now: datetime) -> bool:
        """Say whether something may be read, if the store still has it."""
        return self.consent and self.content is not None and self.expires is not None and now < self.expires

    def readable(self, now: datetime) -> dict[str, str]:
        if not self.has_content(now) or self.lost:
            return {}
        return {name: value for name, value in (self.content or {}).items() if self.origins[name].counts(now)}

    def decide(self, consent: bool | None = None) -> None:
        """Clear (None), allow or forbid: nothing of before is left."""
        self.consent = self.consent if consent is None else consent
        self.content, self.expires, self.lost, self.origins = None, None, False, {}
        self.epoch += 1
        self.revision += 1

    def change(self, changes: dict[str, str | None], now: datetime) -> None:
        self._hold(self.readable(now) | changes, now)
        self.changes += 1
        for name, value in changes.items():
            self.origins.pop(name, None)
            if value is not None:
                self.origins[name] = Origin(None, now)
        self.epoch += 1
        self.revision += 1

    def understand(self, said: Said, wishes: dict[str, str | None], now: datetime) -> bool:
        """Take in what a message wishes, and say whether that changed the content."""
        known = self.readable(now)
        newest = {
            name: value
            for name, value in wishes.items()
            if name not in self.origins or not self.origins[name].is_newer_than(said)
        }
        self.origins |= {name: Origin(said, said.at, value is None) for name, value in newest.items()}
        if all(value is None and name not in known for name, value in newest.items()):
            return False
        self._hold(known | newest, now)
        self.revision += 1
        return True

    def _hold(self, values: dict[str, str | None], now: datetime) -> None:
        self.content = {name: value for name, value in values.items() if value is not None}
        self.expires = now + READABLE
        self.lost = False
