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

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return the setting for an observation if it differs enough from the current one.

        None without measurements of the receiver.
        """
        self._integrate_backlog(observation)
        if not observation.is_measured:
            return None
        setting = self._choose_setting(observation)
        if not self._is_worth_it(setting, observation):
            return None
        self._changed_s = observation.now_s
        return Decision(setting, self._describe_cause(setting, observation))

    def _integrate_backlog(self, observation: StreamObservation) -> None:
        passed_s = 0.0 if self._seen_s is None else max(0.0, observation.now_s - self._seen_s)
        self._seen_s = observation.now_s
        if not observation.is_measured:
            return
        # The packets of a tree arrive at once, so one tree is no backlog.
        burst = observation.setting.bundle if observation.setting.scheme is Scheme.TREE else 0
        backlog_s = (observation.delta - burst) / observation.rate_pps
        over_s = backlog_s - self._parameters.slack_s
        if over_s > 0:
            # At full shedding a further increase has no effect, and would only decay more slowly.
            if observation.setting.shed < 1:
                self._extra += self._parameters.gain * over_s * passed_s
        else:
            self._extra *= max(0.0, 1 - self._parameters.recovery * passed_s)
        self._extra = min(self._extra, self._parameters.max_extra)

    def _choose_setting(self, observation: StreamObservation) -> Setting:
        """Return the strongest setting that the receiver can sustain."""
        verify_s = observation.verify_s * (1 + self._extra)
        handle_s = observation.handle_s * (1 + self._extra)
        room_s = self._parameters.utilisation / observation.rate_pps - handle_s
        largest = min(MAX_BUNDLE, max(1, int(observation.delay_bound_s * observation.rate_pps)))
        algorithm = observation.setting.algorithm
        if room_s > 0 and ceil(verify_s / room_s) <= largest:
            return Setting(self._scheme, algorithm, max(1, ceil(verify_s / room_s)))
        permitted = observation.permitted
        level = max(0.0, room_s) / verify_s
        if level >= permitted.low:
            # Rounded down to whole per cents, so that the receiver sustains it; never below the
            # floor.
            level = max(permitted.low, int(level * _STEPS) / _STEPS)
            return Setting(Scheme.PERCENTAGE, algorithm, level=permitted.clamp(level))
        return self._floor_setting(observation, verify_s, handle_s, largest)

    def _floor_setting(self, observation: StreamObservation, verify_s: float, handle_s: float,
                       largest: int) -> Setting:
        """Return the setting at the floor that sheds the fewest packets.

        It is either trees of the largest size, or the floor by percentage. With trees, shedding
        saves the handling of packets but no verification, because a tree is hardly ever shed
        completely.
        """
        floor, rate = observation.permitted.low, observation.rate_pps
        utilisation = self._parameters.utilisation
        by_level = 1 - utilisation / (rate * (handle_s + floor * verify_s))
        left = utilisation - rate * verify_s / largest
        by_tree = 1 - left / (rate * handle_s) if left > 0 and handle_s > 0 else 1.0
        if self._scheme is Scheme.TREE and by_tree <= by_level:
            return Setting(self._scheme, observation.setting.algorithm, largest,
                           shed=_round_up(by_tree))
        # One lost packet loses a bundle of delayed authentication, so none is shed from these.
        return Setting(Scheme.PERCENTAGE, observation.setting.algorithm,
                       level=observation.permitted.clamp(floor), shed=_round_up(by_level))

    def _is_worth_it(self, setting: Setting, observation: StreamObservation) -> bool:
        now, hysteresis = observation.setting, 1 + self._parameters.hysteresis
        if setting == now:
            return False
        if self._changed_s is not None and (
                observation.now_s - self._changed_s < self._parameters.settle_s):
            return False
        if setting.scheme is not now.scheme:
            return True
        if setting.scheme is Scheme.PERCENTAGE:
            return (setting.level < now.level or setting.level >= now.level * hysteresis
                    or setting.shed > now.shed or setting.shed * hysteresis <= now.shed)
        return (setting.bundle > now.bundle or setting.bundle * hysteresis <= now.bundle
                or setting.shed != now.shed)

    def _describe_cause(self, setting: Setting, observation: StreamObservation) -> str:
        what = (f"{100 * setting.level:g} %" if setting.scheme is Scheme.PERCENTAGE
                else f"{setting.scheme.name.lower()}, bundle {setting.bundle}")
        shed = f", {100 * setting.shed:g} % shed" if setting.shed else ""
        return (
            f"{observation.rate_pps:.0f} packets/s at {1e3 * observation.verify_s:.3g} ms a "
            "verification, "
                f"DELTA {observation.delta}: {what}{shed}")


def _round_up(share: float) -> float:
    """Return a share rounded up to whole per cents, between 0 and 1."""
    return min(1.0, max(0.0, ceil(share * _STEPS) / _STEPS))
