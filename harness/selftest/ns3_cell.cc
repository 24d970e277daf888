// One cell of stations that send to one receiver, in ns-3. Arguments: key=value. One JSON object.
#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"
#include <iostream>
#include <map>
#include <unordered_map>
#include <vector>
#include <algorithm>
using namespace ns3;
static uint64_t g_sent = 0, g_received = 0, g_dropped = 0;
static std::unordered_map<uint64_t, double> g_born;
static std::vector<double> g_delays;
static std::map<Mac48Address, uint64_t> g_from;
static double g_warm = 1;
static void Recv(Ptr<Socket> socket)
{
    Address from;
    while (auto p = socket->RecvFrom(from)) {
        auto it = g_born.find(p->GetUid());
        double now = Simulator::Now().GetSeconds();
        if (now >= g_warm) { g_received++; }
        if (it != g_born.end()) { if (it->second >= g_warm) g_delays.push_back(now - it->second); g_born.erase(it); }
    }
}
static void TxBegin(Ptr<const Packet> p, double) { if (p->GetSize() > 40 && Simulator::Now().GetSeconds() >= g_warm) g_sent++; }
struct Source {
    Ptr<Socket> socket; Address to; uint32_t size; Ptr<RandomVariableStream> gap;
    void Send() {
        auto p = Create<Packet>(size);
        g_born[p->GetUid()] = Simulator::Now().GetSeconds();
        socket->SendTo(p, 0, to);
        Simulator::Schedule(Seconds(gap->GetValue()), &Source::Send, this);
    }
};
int main(int argc, char** argv)
{
    uint32_t n = 1, payload = 1470, seed = 1; std::string medium = "802.11b-long"; double gap = 0, seconds = 20, satrate = 0;
    CommandLine cmd; cmd.AddValue("stations", "", n); cmd.AddValue("payload", "", payload); cmd.AddValue("medium", "", medium);
    cmd.AddValue("gap", "", gap); cmd.AddValue("seconds", "", seconds); cmd.AddValue("seed", "", seed); cmd.AddValue("satrate", "", satrate);
    cmd.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);
    bool shortPre = medium == "802.11b-short", b = medium.rfind("802.11b", 0) == 0;
    NodeContainer nodes; nodes.Create(n + 1);
    auto channel = YansWifiChannelHelper(); channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-50));
    YansWifiPhyHelper phy; phy.SetChannel(channel.Create());
    WifiHelper wifi;
    wifi.SetStandard(b ? WIFI_STANDARD_80211b : medium == "802.11a" ? WIFI_STANDARD_80211a : WIFI_STANDARD_80211g);
    std::string data = b ? "DsssRate11Mbps" : medium == "802.11a" ? "OfdmRate54Mbps" : "ErpOfdmRate54Mbps";
    std::string ctl = b ? (shortPre ? "DsssRate2Mbps" : "DsssRate1Mbps") : medium == "802.11a" ? "OfdmRate24Mbps" : "ErpOfdmRate24Mbps";
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(data), "ControlMode", StringValue(ctl), "RtsCtsThreshold", UintegerValue(999999));
    WifiMacHelper mac; mac.SetType("ns3::AdhocWifiMac", "QosSupported", BooleanValue(false));
    auto devices = wifi.Install(phy, mac, nodes);
    MobilityHelper mobility; mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel"); mobility.Install(nodes);
    for (uint32_t i = 0; i <= n; i++) {
        auto dev = DynamicCast<WifiNetDevice>(devices.Get(i));
        if (medium == "802.11g") { dev->GetPhy()->SetSlot(MicroSeconds(9)); }
        dev->GetRemoteStationManager()->SetShortPreambleEnabled(shortPre);
        if (b) { dev->GetRemoteStationManager()->AddBasicMode(WifiMode(shortPre ? "DsssRate2Mbps" : "DsssRate1Mbps")); }
        dev->GetMac()->GetTxopQueue(AC_BE_NQOS)->SetMaxSize(QueueSize("50p"));
        dev->GetMac()->GetTxopQueue(AC_BE_NQOS)->SetMaxDelay(Seconds(1000));
        if (i) dev->GetPhy()->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&TxBegin));
    }
    PacketSocketHelper ps; ps.Install(nodes);
    PacketSocketAddress sink; sink.SetSingleDevice(devices.Get(0)->GetIfIndex()); sink.SetProtocol(1);
    auto rs = Socket::CreateSocket(nodes.Get(0), PacketSocketFactory::GetTypeId()); rs->Bind(sink); rs->SetRecvCallback(MakeCallback(&Recv));
    std::vector<Source*> sources;
    for (uint32_t i = 1; i <= n; i++) {
        PacketSocketAddress to; to.SetSingleDevice(devices.Get(i)->GetIfIndex()); to.SetPhysicalAddress(devices.Get(0)->GetAddress()); to.SetProtocol(1);
        auto s = Socket::CreateSocket(nodes.Get(i), PacketSocketFactory::GetTypeId()); s->Bind(); s->Connect(to);
        Ptr<RandomVariableStream> r;
        if (gap > 0) { auto e = CreateObject<ExponentialRandomVariable>(); e->SetAttribute("Mean", DoubleValue(gap)); r = e; }
        else { auto c = CreateObject<ConstantRandomVariable>(); c->SetAttribute("Constant", DoubleValue(satrate)); r = c; }
        auto src = new Source{s, to, payload + 28, r}; sources.push_back(src);
        auto u = CreateObject<UniformRandomVariable>();
        Simulator::Schedule(Seconds(0.1 + u->GetValue(0, 0.01)), &Source::Send, src);
    }
    Simulator::Stop(Seconds(seconds + g_warm)); Simulator::Run();
    std::sort(g_delays.begin(), g_delays.end());
    double sum = 0; for (double d : g_delays) sum += d;
    auto dev = DynamicCast<WifiNetDevice>(devices.Get(1));
    std::cerr << "slot " << dev->GetPhy()->GetSlot() << " sifs " << dev->GetPhy()->GetSifs() << " ack " << dev->GetPhy()->GetAckTxTime() << " cwmin " << dev->GetMac()->GetTxop()->GetMinCw(0) << "\n";
    printf("{\"delivered_per_s\": %.3f, \"collision_share\": %.5f, \"delay_mean_us\": %.2f, \"delay_p99_us\": %.2f}\n", g_received / seconds,
        g_sent ? 1.0 - double(g_received) / g_sent : 0.0, g_delays.empty() ? 0 : sum / g_delays.size() * 1e6, g_delays.empty() ? 0 : g_delays[g_delays.size() * 99 / 100] * 1e6);
}
