"""Authenticast's formats and settings: what goes out comes back, everything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.authenticast import crypto, messages, packets
from protocols.authenticast.crypto import UnusableKey
from protocols.authenticast.messages import (
    Ack,
    Bye,
    ControlMessage,
    EpochChange,
    Hello,
    HelloAck,
    ReceiverReport,
    StreamRequest,
)
from protocols.authenticast.packets import BundleSignature, KeyDisclosure, StreamPacket
from protocols.authenticast.schemes import tesla
from protocols.authenticast.settings import (
    SIGNATURES,
    STEPS,
    Algorithm,
    LevelRange,
    Scheme,
    SettingError,
    StreamSetting,
)
from protocols.authenticast.wire import PacketError

U16, U32, U64 = (st.integers(0, 2 ** bits - 1) for bits in (16, 32, 64))
NAMES = st.text(max_size=40)
BYTES32, NONCES = st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16)
SHARES = st.integers(0, STEPS).map(lambda steps: steps / STEPS)


@st.composite
def any_settings(draw) -> StreamSetting:
    """Any setting that makes sense."""
    scheme = draw(st.sampled_from(Scheme))
    algorithm = draw(st.sampled_from(sorted(SIGNATURES))) if scheme.is_signed else Algorithm.HMAC
    level = draw(SHARES) if scheme is Scheme.PERCENTAGE else 1.0
    return StreamSetting(scheme, algorithm, draw(st.integers(1, 1024)), level, draw(SHARES))


@st.composite
def wishes(draw) -> StreamRequest:
    """Any wish whose level is in its range."""
    setting = draw(any_settings())
    low = draw(SHARES.filter(lambda share: share <= setting.level))
    high = draw(SHARES.filter(lambda share: share >= setting.level))
    return StreamRequest(LevelRange(low, high), setting, draw(st.booleans()), draw(st.booleans()))


@st.composite
def data(draw) -> StreamPacket:
    """Any packet of a stream."""
    bundle = draw(st.integers(1, 1024))
    position = draw(st.integers(0, bundle - 1))
    return StreamPacket(draw(st.sampled_from(Scheme)), draw(st.sampled_from(Algorithm)),
                        draw(st.integers(0, 255)), draw(U32),
                        draw(st.integers(position, 2 ** 64 - 1)),
                        draw(U64), draw(U32), draw(U32), position, bundle,
                        draw(st.binary(max_size=50)),
                        draw(st.binary(max_size=50)))


MESSAGES = st.one_of(
    st.builds(Hello, NAMES, U64, U16, U32, U32, NONCES, BYTES32, wishes()),
    st.builds(HelloAck, NAMES, U32, U64, U32, U32, BYTES32, NONCES, BYTES32, any_settings()),
    st.builds(ControlMessage, U32, U64, wishes(), st.binary(max_size=40)),
    st.builds(EpochChange, U32, U32, U64, U64, any_settings(), NAMES, st.binary(max_size=40)),
    st.builds(Ack, U32, U32, st.binary(max_size=40)),
    st.builds(ReceiverReport, U32, *[U64] * 13, U16), st.builds(Bye, U32, U64))


@settings(deadline=None)
@given(data())
def test_data_comes_back(packet):
    """A packet of the stream is the same after its trip, and what is signed is all but its end."""
    assert packets.parse_data(packet.encode()) == packet
    assert packet.encode() == packet.signed_bytes() + packet.authenticator


@settings(deadline=None)
@given(st.builds(BundleSignature, st.sampled_from(Algorithm), U32, U32, U64, st.integers(1, 1024),
                 st.binary(max_size=80)), st.builds(KeyDisclosure, U32, U32, U32, BYTES32))
def test_the_rest_of_the_data_plane_comes_back(bundle, disclosed):
    """Bundles' signatures and disclosed keys are the same after their trip."""
    assert packets.parse_bundle(bundle.encode()) == bundle
    assert packets.parse_disclosure(disclosed.encode()) == disclosed


@settings(deadline=None)
@given(MESSAGES, st.binary(max_size=100))
def test_messages_come_back(message, authentication):
    """Every message is the same after its trip, apart from what authenticates it."""
    received = messages.parse_message(message.encode() + authentication)
    assert received.message == message
    assert received.body == message.encode()
    assert received.authentication == authentication


PARSERS = (packets.parse_data, packets.parse_bundle, packets.parse_disclosure,
           messages.parse_message,
           tesla.parse_parameters)


@settings(deadline=None)
@given(st.sampled_from(PARSERS), st.binary(max_size=300), st.integers(0, 255))
def test_parsers_refuse_noise_cleanly(parse, noise, first):
    """Whatever comes from the network is a message or a PacketError (ValueError), nothing else."""
    for datagram in (noise, bytes((0x10 | first % 16,)) + noise):
        try:
            parse(datagram)
        except PacketError:
            pass
        except ValueError:
            assert parse is tesla.parse_parameters


@settings(deadline=None)
@given(MESSAGES, st.data())
def test_parsers_refuse_damage_cleanly(message, choices):
    """Messages cut short or with a bit turned parse or are refused; nothing else happens."""
    encoded = message.encode()
    cut = choices.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(PacketError):
        messages.parse_message(encoded[:cut])
    place = choices.draw(st.integers(0, len(encoded) - 1))
    damaged = bytearray(encoded)
    damaged[place] ^= 1 << choices.draw(st.integers(0, 7))
    try:
        messages.parse_message(bytes(damaged))
    except PacketError as error:
        assert str(error)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: LevelRange(1.0, 0.05), "upside down"),
    (lambda: LevelRange(-0.1, 1), "give 0 to 100 %"),
    (lambda: StreamSetting(Scheme.PERCENTAGE, Algorithm.DSA, level=0.02).check(LevelRange(0.05, 1)),
     "below the floor of 5 %"),
    (lambda: StreamSetting(Scheme.PERCENTAGE, Algorithm.DSA,
                           level=0.9).check(LevelRange(0.05, 0.5)),
     "above the range"),
    (lambda: StreamSetting(Scheme.DELAYED, Algorithm.DSA, 0), "bundle: 0 packets; give 1 to 1024"),
    (lambda: StreamSetting(Scheme.TREE, Algorithm.DSA, 4, level=0.5), "verifies every packet"),
    (lambda: StreamSetting(Scheme.TESLA, Algorithm.DSA), "give HMAC"),
    (lambda: StreamSetting(Scheme.DELAYED, Algorithm.HMAC), "give a signature"),
])
def test_settings_that_make_no_sense(make, words):
    """One line says what is wrong and what to give instead."""
    with pytest.raises(SettingError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("algorithm", "bits"), [
    (Algorithm.DSA, 512), (Algorithm.RSA, 512), (Algorithm.DSA, 1500), (Algorithm.HMAC, 128)])
def test_keys_that_cannot_be(algorithm, bits):
    """Sizes that the library refuses, and the papers' 512 bits, are refused in one line."""
    with pytest.raises(UnusableKey) as caught:
        crypto.generate_key(algorithm, bits)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("algorithm", sorted(SIGNATURES))
def test_keys_come_back_and_verify(algorithm):
    """PEM leads back to the same key, which signs what its public half verifies, and only that."""
    made = crypto.generate_key(algorithm)
    private, public = crypto.load_private(made.to_pem()), crypto.load_public(made.public.to_pem())
    charged = []
    operations = crypto.Crypto(lambda kind, size: charged.append((kind, size)),
                               {Algorithm.DSA: "dsa-512"})
    signature = operations.sign(private, b"text")
    assert operations.verify(public, b"text", signature)
    assert not operations.verify(public, b"test", signature)
    name = "dsa-512" if algorithm is Algorithm.DSA else f"{algorithm.name.lower()}-{made.bits}"
    assert charged == [("hash", 4), (f"{name}-sign", 32)] + 2 * [("hash", 4), (f"{name}-verify",
                                                                             32)]


def test_no_key_at_all():
    """What is no key is refused in one line."""
    for load in (crypto.load_private, crypto.load_public):
        with pytest.raises(UnusableKey, match="in PEM"):
            load(b"no key")
