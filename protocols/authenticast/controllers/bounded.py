"""The smallest bundle that a receiver can sustain under a delay bound, with a floor.

Feed-forward: the receiver measures the times of a packet and of a verification. From them and the
packet rate follows the smallest group that keeps its processor below `utilisation`. Feedback: an
integral of the backlog increases the times. The integral stops growing where it has no effect
(anti-windup).

If no group meets both the processor limit and the delay bound, the level falls, but never below the
user's floor. At the floor, packets are shed without verification. An attacker who loads the
receiver thus costs it packets, but not its protection.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from protocols.authenticast.controllers.state import Decision, StreamObservation
from protocols.authenticast.settings import MAX_BUNDLE, Scheme, Setting

_STEPS = 100


@dataclass(frozen=True)
class BoundedParameters:
    """Parameters of the processor limit, the feedback and the changes."""

    #: Share of the receiver's processor to use.
    utilisation: float = 0.9
    #: Backlog in seconds of the stream that has no effect.
    slack_s: float = 0.1
    #: Relative increase of the estimated times for each second of backlog and second of time.
    gain: float = 0.2
    #: Largest relative increase of the estimated times.
    max_extra: float = 4.0
    #: Share of that increase that is removed in each second without a backlog.
    recovery: float = 0.3
    #: Smallest relative change for which a group becomes smaller or a level rises.
    hysteresis: float = 0.25
    #: Shortest time between changes, in seconds.
    settle_s: float = 1.0


class Bounded:
    """A controller that chooses the group, the level and the shedding.

    `scheme` is delayed, or tree, which tolerates losses.
    """

    def __init__(self, scheme: Scheme = Scheme.TREE,
                 parameters: BoundedParameters | None = None) -> None:
        if not scheme.has_bundles:
            raise ValueError("bounded: give a scheme with bundles, delayed or tree")
        self._scheme = scheme
        self._parameters = parameters or BoundedParameters()
        self._extra = 0.0
        self._seen_s: float | None = None
        self._changed_s: float | None = None

    def decide(self, seen: StreamObservation) -> Decision | None:
        """Return the setting for an observation if it differs enough from the current one.

        None without measurements of the receiver.
        """
        self._integrate(seen)
        if not seen.is_measured:
            return None
        setting = self._setting(seen)
        if not self._is_worth_it(setting, seen):
            return None
        self._changed_s = seen.now_s
        return Decision(setting, self._cause(setting, seen))

    def _integrate(self, seen: StreamObservation) -> None:
        passed_s = 0.0 if self._seen_s is None else max(0.0, seen.now_s - self._seen_s)
        self._seen_s = seen.now_s
        if not seen.is_measured:
            return
        # The packets of a tree arrive at once, so one tree is no backlog.
        burst = seen.setting.bundle if seen.setting.scheme is Scheme.TREE else 0
        backlog_s = (seen.delta - burst) / seen.rate_pps
        over_s = backlog_s - self._parameters.slack_s
        if over_s > 0:
            # At full shedding a further increase has no effect, and would only decay more slowly.
            if seen.setting.shed < 1:
                self._extra += self._parameters.gain * over_s * passed_s
        else:
            self._extra *= max(0.0, 1 - self._parameters.recovery * passed_s)
        self._extra = min(self._extra, self._parameters.max_extra)

    def _setting(self, seen: StreamObservation) -> Setting:
        """Return the strongest setting that the receiver can sustain."""
        verify_s = seen.verify_s * (1 + self._extra)
        handle_s = seen.handle_s * (1 + self._extra)
        room_s = self._parameters.utilisation / seen.rate_pps - handle_s
        largest = min(MAX_BUNDLE, max(1, int(seen.delay_bound_s * seen.rate_pps)))
        algorithm = seen.setting.algorithm
        if room_s > 0 and ceil(verify_s / room_s) <= largest:
            return Setting(self._scheme, algorithm, max(1, ceil(verify_s / room_s)))
        permitted = seen.permitted
        level = max(0.0, room_s) / verify_s
        if level >= permitted.low:
            # Rounded down to whole per cents, so that the receiver sustains it; never below the
            # floor.
            level = max(permitted.low, int(level * _STEPS) / _STEPS)
            return Setting(Scheme.PERCENTAGE, algorithm, level=permitted.clamp(level))
        return self._at_the_floor(seen, verify_s, handle_s, largest)

    def _at_the_floor(self, seen: StreamObservation, verify_s: float, handle_s: float,
                      largest: int) -> Setting:
        """Return the setting at the floor that sheds the fewest packets.

        It is either trees of the largest size, or the floor by percentage. With trees, shedding
        saves the handling of packets but no verification, because a tree is hardly ever shed
        completely.
        """
        floor, rate = seen.permitted.low, seen.rate_pps
        utilisation = self._parameters.utilisation
        by_level = 1 - utilisation / (rate * (handle_s + floor * verify_s))
        left = utilisation - rate * verify_s / largest
        by_tree = 1 - left / (rate * handle_s) if left > 0 and handle_s > 0 else 1.0
        if self._scheme is Scheme.TREE and by_tree <= by_level:
            return Setting(self._scheme, seen.setting.algorithm, largest, shed=_up(by_tree))
        # One lost packet loses a bundle of delayed authentication, so none is shed from these.
        return Setting(Scheme.PERCENTAGE, seen.setting.algorithm,
                       level=seen.permitted.clamp(floor), shed=_up(by_level))

    def _is_worth_it(self, setting: Setting, seen: StreamObservation) -> bool:
        now, hysteresis = seen.setting, 1 + self._parameters.hysteresis
        if setting == now:
            return False
        if self._changed_s is not None and (
                seen.now_s - self._changed_s < self._parameters.settle_s):
            return False
        if setting.scheme is not now.scheme:
            return True
        if setting.scheme is Scheme.PERCENTAGE:
            return (setting.level < now.level or setting.level >= now.level * hysteresis
                    or setting.shed > now.shed or setting.shed * hysteresis <= now.shed)
        return (setting.bundle > now.bundle or setting.bundle * hysteresis <= now.bundle
                or setting.shed != now.shed)

    def _cause(self, setting: Setting, seen: StreamObservation) -> str:
        what = (f"{100 * setting.level:g} %" if setting.scheme is Scheme.PERCENTAGE
                else f"{setting.scheme.name.lower()}, bundle {setting.bundle}")
        shed = f", {100 * setting.shed:g} % shed" if setting.shed else ""
        return (f"{seen.rate_pps:.0f} packets/s at {1e3 * seen.verify_s:.3g} ms a verification, "
                f"DELTA {seen.delta}: {what}{shed}")


def _up(share: float) -> float:
    """Return a share rounded up to whole per cents, between 0 and 1."""
    return min(1.0, max(0.0, ceil(share * _STEPS) / _STEPS))
