"""Controllers: they adapt the authentication of a stream to the load of its receiver.

A receiver that verifies more packets than its CPU can process loses packets. So the client reports
its load, and the server's controller may change how packets are authenticated. After each report, a
`Controller` gets a `StreamObservation` and may return a new setting (`ControlDecision`): scheme,
fraction of packets to verify, and size of bundles. A bundle is a group of packets with a common
signature.

There are four kinds of controllers:

- `StaticController`: never changes the setting.
- `Blend1998`, `DelayedFirst1998`: controllers of the 1998 paper (Schneck and Schwan). They react
  if more than LIMIT packets were sent but not yet read (DELTA > LIMIT).
- `BoundedDelayController`: chooses the smallest bundle that the receiver's CPU can verify without
  exceeding a bound of the packets' delay.
- `LyapunovController`: verifies the largest fraction that the user permits while few packets wait,
  and the smallest permitted fraction while many wait. The method is called drift plus penalty.

`AlgorithmController` adds the choice of the signature algorithm to any of them.
`protocols.authenticast` lists the terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

from protocols.authenticast.fairness import StreamLoad, best_algorithm, busier_end_load
from protocols.authenticast.settings import MAX_BUNDLE, Algorithm, LevelRange, Scheme, StreamSetting

# --- Input and output of a controller ---
# Times are in seconds, sizes in packets.

# Below one packet in 100 s there is no stream; below 1 ns no verification was measured.
_MIN_RATE_PPS = 0.01
_MIN_S = 1e-9


@dataclass(frozen=True)
class StreamObservation:
    """The state of a stream when a report of its receiver has arrived.

    - `setting`: setting under which packets are signed now
    - `permitted`: range of verified fractions that the user permits
    - `rate_pps`: rate at which packets are sent (packets/s)
    - `buffer_drops`: packets that the receive buffer dropped
    - `delta`: packets that were sent, but not yet read by the receiver (DELTA in the 1998 paper)
    - `holes`: number of gaps between processed packets
    - `verify_s`, `handle_s`: the receiver's mean time to verify a signature, and to handle a packet
      without that (s). They are 0 before the first measurement.
    - `delay_bound_s`: largest accepted delay (s), from the server's configuration
    """

    now_s: float
    setting: StreamSetting
    permitted: LevelRange
    sent: int
    processed: int
    delta: int
    rate_pps: float
    holes: int = 0
    buffer_drops: int = 0
    verify_s: float = 0.0
    handle_s: float = 0.0
    delay_bound_s: float = 1.0
    #: Other load of server and client, as shares, and whether the algorithm may change.
    server_load: float = 0.0
    client_load: float = 0.0
    algorithm_change: bool = False

    @property
    def is_measured(self) -> bool:
        """Return whether packets arrive and the time of a verification is known."""
        return self.rate_pps >= _MIN_RATE_PPS and self.verify_s >= _MIN_S


@dataclass(frozen=True)
class ControlDecision:
    """A new setting for a stream, and the reason for it as text."""

    setting: StreamSetting
    cause: str


class Controller(Protocol):
    """A controller that chooses a stream's setting after each report of the receiver."""

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Choose the setting of the stream after a report of its receiver.

        Args:
            observation: state of the stream at the report, in seconds and packets.

        Returns:
            The new setting with its reason for the log, or None to keep the current one. The server
            ignores a setting whose scheme or algorithm was not agreed with the client.
        """


# --- Static setting: the baseline of every comparison ---

class StaticController:
    """A controller that never changes the setting that the user requested."""

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Return None, so that the setting never changes."""
        return None


# --- Change of algorithm, which moves work to the less busy end (section 4.3.4) ---
# Another controller decides everything else. The user must permit changes of algorithm. As the
# paper says, they are rare: the load of the busier end has to fall clearly.

_WORTHWHILE_RATIO = 0.8
_BALANCE_SETTLE_S = 5.0


def operation_rates(setting: StreamSetting, rate_pps: float) -> tuple[float, float]:
    """Return how many signatures per second the server makes and the client verifies."""
    groups = rate_pps / setting.bundle
    if setting.scheme is Scheme.PERCENTAGE:
        return rate_pps, rate_pps * setting.level
    if setting.scheme is Scheme.DELAYED:
        return rate_pps + groups, groups
    return (groups, groups) if setting.scheme is Scheme.TREE else (0.0, 0.0)


class AlgorithmController:
    """A controller that also changes the signature algorithm (such as DSA or RSA).

    It asks another controller first. `costs_s` has the seconds to sign and to verify, by algorithm.
    """

    def __init__(self, inner: Controller,
                 costs_s: Mapping[Algorithm, tuple[float, float]]) -> None:
        self._inner = inner
        self._costs_s = dict(costs_s)
        self._changed_s: float | None = None

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Return the other controller's decision, or else an algorithm that loads both ends less.

        Two changes of the algorithm are at least 5 s apart.
        """
        decision = self._inner.decide(observation)
        if decision is not None or not observation.algorithm_change or (
                observation.setting.algorithm not in self._costs_s):
            return decision
        if self._changed_s is not None and observation.now_s - self._changed_s < _BALANCE_SETTLE_S:
            return None
        signs, verifies = operation_rates(observation.setting, observation.rate_pps)
        load = StreamLoad(observation.server_load, observation.client_load, signs, verifies)
        best = best_algorithm(self._costs_s, load)
        now = busier_end_load(self._costs_s[observation.setting.algorithm], load)
        then = busier_end_load(self._costs_s[best], load)
        if best is observation.setting.algorithm or then > _WORTHWHILE_RATIO * now:
            return None
        self._changed_s = observation.now_s
        return ControlDecision(replace(observation.setting, algorithm=best),
                               f"{best.name}: the busier end's load falls from {now:.2f} to "
                               f"{then:.2f}")


# --- The blend of 1998 (sections 4.5 and 5.2) ---
# The level falls sharply at LIMIT, and larger bundles are tried later. The paper contradicts itself
# about the first remedy, so both readings are here. It gives neither the growth of the bundle nor
# the condition for a stable stream. Both are parameters, and part of a study's record.

@dataclass(frozen=True)
class BlendParameters:
    """Parameters of the blend of 1998, which switches between two schemes by load.

    - `limit`: number of unread packets above which it reacts (LIMIT in the paper)
    - `low`: fraction of packets that it then verifies, 0 to 1
    - `growth`: factor by which it enlarges bundles
    - `calm_share`, `calm_packets`: the stream is stable if the number of unread packets stayed
      below `calm_share` times `limit` while `calm_packets` packets were processed
    """

    limit: int = 90
    low: float = 0.10
    growth: float = 2.0
    max_bundle: int = MAX_BUNDLE
    calm_share: float = 0.2
    calm_packets: int = 200
    #: Smallest group of the remedy, in packets: "greater than 10" (section 4.5).
    remedy_bundle: int = 11

    def next_bundle(self, bundle: int) -> int:
        """Return the next larger size of a bundle."""
        return min(self.max_bundle, max(bundle + 1, ceil(bundle * self.growth)))


class _StabilityDetector:
    """A detector that finds out whether a receiver keeps up with its stream.

    It counts the packets processed since the number of unread packets was last too high.
    """

    def __init__(self, parameters: BlendParameters) -> None:
        self._parameters = parameters
        self._since: int | None = None

    def reset(self) -> None:
        """Count the processed packets from 0 again."""
        self._since = None

    def is_stable(self, observation: StreamObservation) -> bool:
        """Return whether the receiver has kept up for long enough.

        This must be called for every observation.
        """
        if observation.delta >= self._parameters.calm_share * self._parameters.limit:
            self._since = None
        elif self._since is None:
            self._since = observation.processed
        return self._since is not None and (
            observation.processed - self._since >= self._parameters.calm_packets)


class Blend1998:
    """A controller that switches between two schemes, as in the experiments of 1998 (section 5.2).

    With delayed authentication, all packets are verified in bundles. If too many packets wait, the
    receiver verifies only a small fraction instead. Once it keeps up, larger bundles follow.
    """

    def __init__(self, parameters: BlendParameters | None = None) -> None:
        self._parameters = parameters or BlendParameters()
        self._calm = _StabilityDetector(self._parameters)
        self._bundle: int | None = None

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Return a switch to the small fraction under overload, or back to bundles when stable."""
        parameters, setting = self._parameters, observation.setting
        if setting.scheme is Scheme.DELAYED:
            if observation.delta <= parameters.limit:
                return None
            self._bundle = setting.bundle
            self._calm.reset()
            level = observation.permitted.clamp(parameters.low)
            return ControlDecision(StreamSetting(Scheme.PERCENTAGE, setting.algorithm, level=level),
                                   f"DELTA {observation.delta} > {parameters.limit}: to "
                                   f"{100 * level:g} %")
        if setting.scheme is not Scheme.PERCENTAGE or not self._calm.is_stable(observation):
            return None
        self._calm.reset()
        bundle = parameters.next_bundle(self._bundle or setting.bundle)
        return ControlDecision(StreamSetting(Scheme.DELAYED, setting.algorithm, bundle),
                               f"stable: delayed, bundle {bundle}")


class DelayedFirst1998:
    """A controller that enlarges bundles under overload, as section 4.5 of the 1998 paper says.

    When the stream is stable, bundles become smaller again.
    """

    def __init__(self, parameters: BlendParameters | None = None) -> None:
        self._parameters = parameters or BlendParameters()
        self._calm = _StabilityDetector(self._parameters)
        self._raised_at = -1

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Return a bundle of more than ten packets under overload, or a smaller one when stable."""
        parameters, setting = self._parameters, observation.setting
        if observation.delta > parameters.limit:
            self._calm.reset()
            # Packets sent before the last remedy cannot show whether the remedy helps.
            if observation.processed < self._raised_at:
                return None
            if setting.scheme is Scheme.DELAYED:
                bundle = max(parameters.remedy_bundle, parameters.next_bundle(setting.bundle))
            else:
                bundle = parameters.remedy_bundle
            if setting.scheme is Scheme.DELAYED and bundle == setting.bundle:
                return None
            self._raised_at = observation.sent
            return ControlDecision(StreamSetting(Scheme.DELAYED, setting.algorithm, bundle),
                                   f"DELTA {observation.delta} > {parameters.limit}: bundle "
                                   f"{bundle}")
        if setting.scheme is not Scheme.DELAYED or setting.bundle == 1 or (
                not self._calm.is_stable(observation)):
            return None
        self._calm.reset()
        bundle = max(1, int(setting.bundle / parameters.growth))
        return ControlDecision(replace(setting, bundle=bundle), f"stable: bundle {bundle}")


# --- Bounded delay: the smallest sustainable bundle under a delay bound, with a floor ---
# Feed-forward: the receiver measures the times of a packet and of a verification. With the packet
# rate they give the smallest group that keeps its processor below `utilisation`. Feedback: an
# integral of the backlog increases the times. It stops where it has no effect (anti-windup).
# If no group meets both the processor limit and the delay bound, the level falls, but never below
# the user's floor. At the floor, packets are shed without verification. An attacker who loads the
# receiver thus costs it packets, but not its protection.

_LEVEL_STEPS = 100


@dataclass(frozen=True)
class BoundedDelayParameters:
    """Parameters of the bounded-delay controller: CPU limit, feedback and time between changes."""

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


class BoundedDelayController:
    """A controller that verifies as much as the receiver's CPU and a delay bound permit.

    It chooses the group size, the fraction of packets to verify, and the fraction to drop. `scheme`
    is `delayed` or `tree`, which tolerates losses.
    """

    def __init__(self, scheme: Scheme = Scheme.TREE,
                 parameters: BoundedDelayParameters | None = None) -> None:
        if not scheme.has_bundles:
            raise ValueError("bounded: give a scheme with bundles, delayed or tree")
        self._scheme = scheme
        self._parameters = parameters or BoundedDelayParameters()
        self._extra = 0.0
        self._seen_s: float | None = None
        self._changed_s: float | None = None

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Return the best setting, if it differs enough from the current one.

        Without measurements of the receiver, the result is None.
        """
        self._integrate_backlog(observation)
        if not observation.is_measured:
            return None
        setting = self._choose_setting(observation)
        if not self._is_worth_it(setting, observation):
            return None
        self._changed_s = observation.now_s
        return ControlDecision(setting, self._describe_cause(setting, observation))

    def _integrate_backlog(self, observation: StreamObservation) -> None:
        """Increase the estimated times if packets wait too long, and else reduce the increase."""
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

    def _choose_setting(self, observation: StreamObservation) -> StreamSetting:
        """Return the setting that verifies most of the packets without overload of the receiver."""
        verify_s = observation.verify_s * (1 + self._extra)
        handle_s = observation.handle_s * (1 + self._extra)
        room_s = self._parameters.utilisation / observation.rate_pps - handle_s
        largest = min(MAX_BUNDLE, max(1, int(observation.delay_bound_s * observation.rate_pps)))
        algorithm = observation.setting.algorithm
        if room_s > 0 and ceil(verify_s / room_s) <= largest:
            return StreamSetting(self._scheme, algorithm, max(1, ceil(verify_s / room_s)))
        permitted = observation.permitted
        level = max(0.0, room_s) / verify_s
        if level >= permitted.low:
            # Rounded down to whole per cents, so that the receiver sustains it; never below the
            # floor.
            level = max(permitted.low, int(level * _LEVEL_STEPS) / _LEVEL_STEPS)
            return StreamSetting(Scheme.PERCENTAGE, algorithm, level=permitted.clamp(level))
        return self._floor_setting(observation, verify_s, handle_s, largest)

    def _floor_setting(self, observation: StreamObservation, verify_s: float, handle_s: float,
                       largest: int) -> StreamSetting:
        """Return the setting that drops the fewest packets at the user's lowest level.

        The level is the fraction of packets that are verified. The setting uses either trees of the
        largest size, or individual signatures. Dropping packets of a tree saves their handling but
        no verification.
        """
        floor, rate = observation.permitted.low, observation.rate_pps
        utilisation = self._parameters.utilisation
        # Individual signatures, with a fraction `by_level` of the packets dropped:
        # (1 - by_level) * rate * (handle_s + floor * verify_s) = utilisation.
        by_level = 1 - utilisation / (rate * (handle_s + floor * verify_s))
        # Trees, of which each takes one verification for `largest` packets:
        # rate * verify_s / largest + (1 - by_tree) * rate * handle_s = utilisation.
        left = utilisation - rate * verify_s / largest
        by_tree = 1 - left / (rate * handle_s) if left > 0 and handle_s > 0 else 1.0
        if self._scheme is Scheme.TREE and by_tree <= by_level:
            return StreamSetting(self._scheme, observation.setting.algorithm, largest,
                                 shed=_round_up(by_tree))
        # One lost packet loses a bundle of delayed authentication, so none is shed from these.
        return StreamSetting(Scheme.PERCENTAGE, observation.setting.algorithm,
                             level=observation.permitted.clamp(floor), shed=_round_up(by_level))

    def _is_worth_it(self, setting: StreamSetting, observation: StreamObservation) -> bool:
        """Return whether a setting differs enough from the current one to change it now."""
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

    def _describe_cause(self, setting: StreamSetting, observation: StreamObservation) -> str:
        what = (f"{100 * setting.level:g} %" if setting.scheme is Scheme.PERCENTAGE
                else f"{setting.scheme.name.lower()}, bundle {setting.bundle}")
        shed = f", {100 * setting.shed:g} % shed" if setting.shed else ""
        return (f"{observation.rate_pps:.0f} packets/s at {1e3 * observation.verify_s:.3g} ms a "
                f"verification, DELTA {observation.delta}: {what}{shed}")


def _round_up(share: float) -> float:
    """Round a fraction up to whole per cents, between 0 and 1."""
    return min(1.0, max(0.0, ceil(share * _LEVEL_STEPS) / _LEVEL_STEPS))


# --- Drift plus penalty (Neely): verify while that is worth more than the backlog costs ---
# The controller has no model of the load. It verifies the user's highest fraction of packets while
# V >= waiting packets x seconds of a verification, and else the lowest fraction. V is a parameter.
# At the lowest fraction, packets are dropped if the backlog exceeds the delay bound.

_RETURN_SHARE = 0.5


class LyapunovController:
    """A controller that switches between the largest and the smallest permitted fraction.

    While few packets wait, the receiver verifies the largest fraction that the user permits, and
    otherwise the smallest one. The method is drift plus penalty (Neely). `worth` is its parameter
    V, which weighs verification against delay. "Few" means that the number of waiting packets times
    the seconds of a verification is at most V.
    """

    def __init__(self, worth: float = 1.0) -> None:
        if worth <= 0:
            raise ValueError("lyapunov: give a worth above 0")
        self._worth = worth

    def decide(self, observation: StreamObservation) -> ControlDecision | None:
        """Return the largest permitted fraction to verify if few packets wait, else the smallest.

        The result is None if the setting does not change, or if the receiver has not measured a
        verification.
        """
        if not observation.is_measured:
            return None
        backlog = max(0, observation.delta)
        # Hysteresis: every change costs the receiver a verification, so the level rises at half
        # the backlog at which it falls.
        worth = self._worth * (1 if self._was_high(observation) else _RETURN_SHARE)
        pays = worth >= backlog * observation.verify_s
        level = observation.permitted.high if pays else observation.permitted.low
        bound = observation.delay_bound_s * observation.rate_pps
        is_shedding = observation.setting.shed > 0
        sheds = not pays and backlog > bound * (_RETURN_SHARE if is_shedding else 1)
        shed = self._excess_share(observation) if sheds else 0.0
        setting = StreamSetting(Scheme.PERCENTAGE, observation.setting.algorithm, level=level,
                                shed=shed)
        if setting == observation.setting:
            return None
        return ControlDecision(setting, f"backlog {backlog}: {100 * level:g} %"
                               + (f", {100 * shed:g} % shed" if shed else ""))

    @staticmethod
    def _was_high(observation: StreamObservation) -> bool:
        return observation.setting.level >= observation.permitted.high

    def _excess_share(self, observation: StreamObservation) -> float:
        """Return the fraction of packets to drop, because the receiver cannot process them.

        It is rounded to tenths, and at least 0.1.
        """
        cost_s = observation.handle_s + observation.permitted.low * observation.verify_s
        load = observation.rate_pps * cost_s
        return min(1.0, max(0.1, round(10 * (1 - 1 / load)) / 10 if load > 1 else 0.1))
