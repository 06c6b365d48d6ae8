"""What happened to every parameter: copied, partly copied, resized, fresh; what was left."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """One key; norms are Frobenius norms of the student's tensor before and after the transfer."""

    key: str
    component: str
    status: str
    reason: str
    parameters: int
    norm_before: float
    norm_after: float


@dataclass
class Ledger:
    """lines: the student's keys. skipped: source keys that were not used, with the reason."""

    lines: list[Line] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def summary(self) -> dict:
        """Parameter counts by status, and by component and status."""
        totals, by_component = Counter(), {}
        for line in self.lines:
            totals[line.status] += line.parameters
            by_component.setdefault(line.component, Counter())[line.status] += line.parameters
        return {
            **{status: totals[status] for status in ("copied", "partly", "resized", "fresh")},
            "by_component": {name: dict(count) for name, count in sorted(by_component.items())},
            "skipped": len(self.skipped),
        }
