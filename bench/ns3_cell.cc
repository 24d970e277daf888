// One cell of stations that send to one receiver, in ns-3: the reference of the guest's own air.
//
// tests/topologies/test_dcf.py compiles and runs it where ns-3 is installed (pip install ns3==3.44.post0);
// ns3_cell.json beside it has its answers. Arguments are --NAME=VALUE; it writes one JSON object.
// With --gap, stations get frames at random with that mean; with --satrate, one every so many seconds,
// which is to be more than they get through. Frames are as long as those of UDP datagrams of --payload
// bytes. Stations send to each other without an access point, so there are no beacons; all are equally
// strong. `jain_1s` is the mean of Jain's index over each second, `seconds` of them.
//
// With --hops=2 there is an access point beside them, whose network they have joined, and the receiver
// is one of its stations: each frame goes to the access point, which queues 50 and sends them on. It
// sends no beacons (stations ask for it), and 802.11b's acknowledgements go at 2 Mbit/s then, the best
// of its basic rates, with the long preamble. `frame_us` and `ack_us` are the longest that were sent.
//
// 802.11n, ac and ax send aggregates of up to 64 frames and 5.484 ms, one for each channel access, from
// queues of 256 (with --hops=1 only). `collision_share` is that of PPDUs then, and frames count as
// delivered when a block acknowledgement answers theirs. 802.11ax has a window of 256 frames and a limit
// of bytes for 64, because ns-3's HE does not fill aggregates with a window of 64.
#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <unordered_map>
#include <vector>

using namespace ns3;

static const double WARM_UP_S = 1;
static const double JOINED_S = 0.5;
static const uint32_t UDP_IP_BYTES = 28;
static const uint32_t LONGER_THAN_ACK = 40;

static const uint32_t NO_WATCHDOG = 1000000;

static uint64_t g_sent = 0;
static uint64_t g_received = 0;
static std::unordered_map<uint64_t, double> g_born;
static std::vector<double> g_delays;
static std::map<Address, double> g_each; // frames of each station in the second under way
static double g_jain = 0;
static uint32_t g_stations = 1;
static uint64_t g_acks = 0;
static uint64_t g_ppdus = 0;
static uint64_t g_answered = 0;
static std::map<Mac48Address, size_t> g_under_way; // frames of a sender's last PPDU
static double g_longest_us[2] = {0, 0}; // of frames, of acknowledgements
static WifiPhyBand g_band = WIFI_PHY_BAND_2_4GHZ;

// Jain's index of a second's frames is added to those of the seconds before.
static void
SecondEnds()
{
    double sum = 0;
    double squares = 0;
    for (auto& [station, frames] : g_each)
    {
        sum += frames;
        squares += frames * frames;
        frames = 0;
    }
    g_jain += squares ? sum * sum / g_stations / squares : 0;
    Simulator::Schedule(Seconds(1), &SecondEnds);
}

static void
Received(Ptr<Socket> socket)
{
    Address from;
    while (auto packet = socket->RecvFrom(from))
    {
        double now = Simulator::Now().GetSeconds();
        g_received += now >= WARM_UP_S;
        g_each[from] += now >= WARM_UP_S;
        auto born = g_born.find(packet->GetUid());
        if (born != g_born.end())
        {
            if (born->second >= WARM_UP_S)
            {
                g_delays.push_back(now - born->second);
            }
            g_born.erase(born);
        }
    }
}

static void
TransmissionBegins(Ptr<const Packet> packet, double)
{
    g_sent += packet->GetSize() > LONGER_THAN_ACK && Simulator::Now().GetSeconds() >= WARM_UP_S;
}

// What a transmission keeps the air for.
static void
LengthsBegin(WifiConstPsduMap psdus, WifiTxVector vector, double)
{
    if (Simulator::Now().GetSeconds() < WARM_UP_S)
    {
        return;
    }
    auto psdu = psdus.begin()->second;
    bool isAck = psdu->GetHeader(0).IsAck() || psdu->GetHeader(0).IsBlockAck();
    if (psdu->GetHeader(0).IsQosData())
    {
        g_ppdus++;
        g_under_way[psdu->GetHeader(0).GetAddr2()] = psdu->GetNMpdus();
    }
    else if (isAck)
    {
        g_answered += g_under_way[psdu->GetHeader(0).GetAddr1()];
    }
    double us = WifiPhy::CalculateTxDuration(psdu->GetSize(), vector, g_band).GetNanoSeconds() / 1e3;
    g_acks += isAck;
    g_longest_us[isAck] = std::max(g_longest_us[isAck], us);
}

// An access point without beacons leaves 802.11b's stations at what they start with.
static void
AllAlike(NetDeviceContainer devices, bool isShort, bool isG)
{
    for (uint32_t i = 0; i < devices.GetN(); i++)
    {
        auto device = DynamicCast<WifiNetDevice>(devices.Get(i));
        if (isG)
        {
            device->GetPhy()->SetSlot(MicroSeconds(9));
        }
        device->GetRemoteStationManager()->SetShortPreambleEnabled(isShort);
    }
}

struct Faster
{
    WifiStandard standard;
    std::string mode;
    uint32_t width;
    uint32_t streams;
    uint32_t guardNs;
    uint32_t bytes; // of an aggregate
};

static const std::map<std::string, Faster> FASTER = {
    {"802.11n-ht20", {WIFI_STANDARD_80211n, "HtMcs7", 20, 1, 800, 65535}},
    {"802.11n-ht40", {WIFI_STANDARD_80211n, "HtMcs15", 40, 2, 400, 65535}},
    {"802.11ac", {WIFI_STANDARD_80211ac, "VhtMcs9", 80, 2, 400, 1048575}},
    {"802.11ax", {WIFI_STANDARD_80211ax, "HeMcs11", 80, 2, 800, 98560}},
    {"802.11ax-20", {WIFI_STANDARD_80211ax, "HeMcs11", 20, 1, 800, 98560}},
};

struct Source
{
    Ptr<Socket> socket;
    Address to;
    uint32_t size;
    Ptr<RandomVariableStream> gap;

    void Send()
    {
        auto packet = Create<Packet>(size);
        g_born[packet->GetUid()] = Simulator::Now().GetSeconds();
        socket->SendTo(packet, 0, to);
        Simulator::Schedule(Seconds(gap->GetValue()), &Source::Send, this);
    }
};

int
main(int argc, char** argv)
{
    uint32_t stations = 1;
    uint32_t payload = 1470;
    uint32_t seed = 1;
    uint32_t hops = 1;
    double gap = 0;
    double satrate = 0;
    double seconds = 20;
    std::string medium = "802.11b-long";
    CommandLine command;
    command.AddValue("stations", "how many send", stations);
    command.AddValue("payload", "of a datagram, bytes", payload);
    command.AddValue("medium",
                     "802.11b-long, 802.11b-short, 802.11g, 802.11a, 802.11n-ht20, 802.11n-ht40, 802.11ac, "
                     "802.11ax or 802.11ax-20",
                     medium);
    command.AddValue("gap", "mean time between a station's frames, s", gap);
    command.AddValue("satrate", "time between a station's frames, s", satrate);
    command.AddValue("seconds", "how long", seconds);
    command.AddValue("seed", "of random numbers", seed);
    command.AddValue("hops", "1, or 2 through an access point", hops);
    command.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);
    // Who gets no block acknowledgement sends its frames again, and does not ask for it first.
    Config::SetDefault("ns3::QosTxop::UseExplicitBarAfterMissedBlockAck", BooleanValue(false));
    g_stations = stations;

    bool isShort = medium == "802.11b-short";
    bool isB = medium.rfind("802.11b", 0) == 0;
    bool isA = medium == "802.11a";
    auto faster = FASTER.find(medium);
    bool isFaster = faster != FASTER.end();
    NodeContainer nodes;
    nodes.Create(stations + hops);
    g_band = isA || (isFaster && faster->second.width != 20) ? WIFI_PHY_BAND_5GHZ
                                                             : WIFI_PHY_BAND_2_4GHZ;
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-50));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    WifiHelper wifi;
    wifi.SetStandard(isB ? WIFI_STANDARD_80211b : isA ? WIFI_STANDARD_80211a : WIFI_STANDARD_80211g);
    std::string data = isB ? "DsssRate11Mbps" : isA ? "OfdmRate54Mbps" : "ErpOfdmRate54Mbps";
    std::string control = isB ? "DsssRate1Mbps" : isA ? "OfdmRate24Mbps" : "ErpOfdmRate24Mbps";
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode", StringValue(data),
                                 "ControlMode", StringValue(control),
                                 "RtsCtsThreshold", UintegerValue(999999));
    WifiMacHelper mac;
    NetDeviceContainer devices;
    if (isFaster)
    {
        const auto& its = faster->second;
        wifi.SetStandard(its.standard);
        wifi.ConfigHtOptions("ShortGuardIntervalSupported", BooleanValue(its.guardNs == 400));
        wifi.ConfigHeOptions("GuardInterval", TimeValue(NanoSeconds(800)));
        bool isLower = g_band == WIFI_PHY_BAND_2_4GHZ;
        phy.Set("ChannelSettings",
                StringValue("{0, " + std::to_string(its.width) + ", BAND_" +
                            (isLower ? "2_4" : "5") + "GHZ, 0}"));
        phy.Set("Antennas", UintegerValue(its.streams));
        phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(its.streams));
        phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(its.streams));
        wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                     "DataMode", StringValue(its.mode),
                                     "ControlMode", StringValue(isLower ? "ErpOfdmRate24Mbps"
                                                                        : "OfdmRate24Mbps"),
                                     "RtsCtsThreshold", UintegerValue(999999));
        mac.SetType("ns3::AdhocWifiMac", "BE_MaxAmsduSize", UintegerValue(0),
                    "BE_MaxAmpduSize", UintegerValue(its.bytes),
                    "MpduBufferSize",
                    UintegerValue(its.standard == WIFI_STANDARD_80211ax ? 256 : 64));
        devices = wifi.Install(phy, mac, nodes);
    }
    else if (hops == 1)
    {
        mac.SetType("ns3::AdhocWifiMac", "QosSupported", BooleanValue(false));
        devices = wifi.Install(phy, mac, nodes);
    }
    else
    {
        NodeContainer joining;
        for (uint32_t i = 0; i <= stations; i++)
        {
            joining.Add(nodes.Get(i));
        }
        mac.SetType("ns3::StaWifiMac", "QosSupported", BooleanValue(false),
                    "ActiveProbing", BooleanValue(true),
                    "MaxMissedBeacons", UintegerValue(NO_WATCHDOG));
        devices = wifi.Install(phy, mac, joining);
        mac.SetType("ns3::ApWifiMac", "QosSupported", BooleanValue(false),
                    "BeaconGeneration", BooleanValue(false));
        devices.Add(wifi.Install(phy, mac, nodes.Get(stations + 1)));
    }
    bool isShortSlot = !isB && g_band == WIFI_PHY_BAND_2_4GHZ;
    AllAlike(devices, isShort, isShortSlot);
    Simulator::Schedule(Seconds(JOINED_S), &AllAlike, devices, isShort, isShortSlot);
    MobilityHelper mobility;
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(nodes);
    for (uint32_t i = 0; i < devices.GetN(); i++)
    {
        auto device = DynamicCast<WifiNetDevice>(devices.Get(i));
        auto queue = device->GetMac()->GetTxopQueue(isFaster ? AC_BE : AC_BE_NQOS);
        queue->SetMaxSize(QueueSize(isFaster ? "256p" : "50p"));
        queue->SetMaxDelay(Seconds(1000));
        if (isFaster)
        {
            device->GetMac()->GetQosTxop(AC_BE)->SetTxopLimit(Seconds(0));
        }
        device->GetPhy()->TraceConnectWithoutContext("PhyTxPsduBegin",
                                                     MakeCallback(&LengthsBegin));
        if (i)
        {
            device->GetPhy()->TraceConnectWithoutContext("PhyTxBegin",
                                                         MakeCallback(&TransmissionBegins));
        }
    }

    PacketSocketHelper sockets;
    sockets.Install(nodes);
    PacketSocketAddress sink;
    sink.SetSingleDevice(devices.Get(0)->GetIfIndex());
    sink.SetProtocol(1);
    auto receiver = Socket::CreateSocket(nodes.Get(0), PacketSocketFactory::GetTypeId());
    receiver->Bind(sink);
    receiver->SetRecvCallback(MakeCallback(&Received));
    std::vector<Source> sources(stations);
    auto start = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 1; i <= stations; i++)
    {
        PacketSocketAddress to;
        to.SetSingleDevice(devices.Get(i)->GetIfIndex());
        to.SetPhysicalAddress(devices.Get(0)->GetAddress());
        to.SetProtocol(1);
        auto sender = Socket::CreateSocket(nodes.Get(i), PacketSocketFactory::GetTypeId());
        sender->Bind();
        sender->Connect(to);
        Ptr<RandomVariableStream> between;
        if (gap > 0)
        {
            auto exponential = CreateObject<ExponentialRandomVariable>();
            exponential->SetAttribute("Mean", DoubleValue(gap));
            between = exponential;
        }
        else
        {
            auto constant = CreateObject<ConstantRandomVariable>();
            constant->SetAttribute("Constant", DoubleValue(satrate));
            between = constant;
        }
        sources[i - 1] = Source{sender, to, payload + UDP_IP_BYTES, between};
        Simulator::Schedule(Seconds(0.1 + start->GetValue(0, 0.01)), &Source::Send, &sources[i - 1]);
    }
    Simulator::Schedule(Seconds(WARM_UP_S + 1), &SecondEnds);
    // After the end of the last second.
    Simulator::Stop(Seconds(seconds + WARM_UP_S) + NanoSeconds(1));
    Simulator::Run();

    std::sort(g_delays.begin(), g_delays.end());
    double sum = 0;
    for (double delay : g_delays)
    {
        sum += delay;
    }
    size_t count = g_delays.size();
    printf("{\"delivered_per_s\": %.3f, \"collision_share\": %.5f, \"jain_1s\": %.5f, "
           "\"delay_mean_us\": %.2f, \"delay_p99_us\": %.2f, \"frame_us\": %.3f, "
           "\"ack_us\": %.3f}\n",
           (isFaster ? g_answered : g_received) / seconds,
           isFaster ? std::max(0.0, 1.0 - double(g_acks) / g_ppdus)
           : g_sent ? std::max(0.0, 1.0 - double(hops == 1 ? g_received : g_acks) / g_sent)
                    : 0.0,
           g_jain / std::floor(seconds),
           count ? sum / count * 1e6 : 0.0,
           count ? g_delays[count * 99 / 100] * 1e6 : 0.0,
           g_longest_us[0],
           g_longest_us[1]);
    return 0;
}
