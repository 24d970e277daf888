"""The blend of 1998 (sections 4.5 and 5.2), with a sharp fall at LIMIT.

It tries larger bundles later. The paper contradicts itself about the first remedy, so the module
has both readings. It gives neither the growth of the bundle nor the condition for a stable stream.
Both are parameters, and part of a study's record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from protocols.authenticast.controllers.state import Decision, StreamObservation
from protocols.authenticast.settings import MAX_BUNDLE, Scheme, Setting


@dataclass(frozen=True)
class BlendParameters:
    """Parameters of the blend of 1998.

    `limit` is LIMIT in packets of DELTA, `low` the level to fall to (a share), and `growth` the
    factor by which bundles grow. A stream is stable when DELTA was below `calm_share` of LIMIT
    while `calm_packets` packets were processed.
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
        """Return the next larger bundle, in packets."""
        return min(self.max_bundle, max(bundle + 1, ceil(bundle * self.growth)))


class _Calm:
    """A detector of a stable stream.

    It counts the packets processed since DELTA last reached `calm_share` of LIMIT.
    """

    def __init__(self, parameters: BlendParameters) -> None:
        self._parameters = parameters
        self._since: int | None = None

    def reset(self) -> None:
        """Restart the count."""
        self._since = None

    def is_stable(self, observation: StreamObservation) -> bool:
        """Return whether the stream is stable. Call this for every observation."""
        if observation.delta >= self._parameters.calm_share * self._parameters.limit:
            self._since = None
        elif self._since is None:
            self._since = observation.processed
        return self._since is not None and (
            observation.processed - self._since >= self._parameters.calm_packets)


class Blend1998:
    """The blend as the experiments ran it (section 5.2).

    It changes from delayed authentication to less than 20 % at LIMIT, and back when the stream is
    stable.
    """

    def __init__(self, parameters: BlendParameters | None = None) -> None:
        self._parameters = parameters or BlendParameters()
        self._calm = _Calm(self._parameters)
        self._bundle: int | None = None

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return a change to the low level or back to delayed authentication.

        The level falls when DELTA exceeds LIMIT. A larger bundle follows when the stream is stable
        again.
        """
        parameters, setting = self._parameters, observation.setting
        if setting.scheme is Scheme.DELAYED:
            if observation.delta <= parameters.limit:
                return None
            self._bundle = setting.bundle
            self._calm.reset()
            level = observation.permitted.clamp(parameters.low)
            return Decision(Setting(Scheme.PERCENTAGE, setting.algorithm, level=level),
                            f"DELTA {observation.delta} > {parameters.limit}: to {100 * level:g} %")
        if setting.scheme is not Scheme.PERCENTAGE or not self._calm.is_stable(observation):
            return None
        self._calm.reset()
        bundle = parameters.next_bundle(self._bundle or setting.bundle)
        return Decision(Setting(Scheme.DELAYED, setting.algorithm, bundle),
                        f"stable: delayed, bundle {bundle}")


class DelayedFirst1998:
    """The blend as section 4.5 describes it: larger groups first, later smaller ones."""

    def __init__(self, parameters: BlendParameters | None = None) -> None:
        self._parameters = parameters or BlendParameters()
        self._calm = _Calm(self._parameters)
        self._raised_at = -1

    def decide(self, observation: StreamObservation) -> Decision | None:
        """Return a change of the group's size.

        A group has more than ten packets when DELTA exceeds LIMIT. Groups become smaller when the
        stream is stable.
        """
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
            return Decision(Setting(Scheme.DELAYED, setting.algorithm, bundle),
                            f"DELTA {observation.delta} > {parameters.limit}: bundle {bundle}")
        if setting.scheme is not Scheme.DELAYED or setting.bundle == 1 or (
                not self._calm.is_stable(observation)):
            return None
        self._calm.reset()
        bundle = max(1, int(setting.bundle / parameters.growth))
        return Decision(replace(setting, bundle=bundle), f"stable: bundle {bundle}")
