// A station that joins an open network by the kernel's nl80211, with the module github.com/mdlayher/wifi.
//
//	go-station INTERFACE SSID
//
// It scans, joins the network, and prints the access point and its signal.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/wifi"
)

const patience = 30 * time.Second

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "go-station: give INTERFACE and SSID")
		os.Exit(2)
	}
	if err := join(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "go-station: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// join joins a network, and waits until the kernel has its access point as a peer.
func join(name, ssid string) error {
	client, err := wifi.New()
	if err != nil {
		return err
	}
	defer client.Close()
	station, err := find(client, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.Scan(ctx, station); err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	if err := client.Connect(station, ssid); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		peers, err := client.StationInfo(station)
		if err != nil || len(peers) == 0 {
			continue
		}
		if bss, err := client.BSS(station); err == nil {
			fmt.Printf("joined %s at %s, %d MHz, %d dBm\n", bss.SSID, bss.BSSID, bss.Frequency, peers[0].Signal)
			return nil
		}
	}
	return fmt.Errorf("%s is not joined after %v", ssid, patience)
}

func find(client *wifi.Client, name string) (*wifi.Interface, error) {
	interfaces, err := client.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, each := range interfaces {
		if each.Name == name {
			return each, nil
		}
	}
	return nil, fmt.Errorf("there is no such radio")
}
