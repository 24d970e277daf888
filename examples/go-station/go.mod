module example.org/go-station

go 1.24.0

require github.com/mdlayher/wifi v0.7.2

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/mdlayher/genetlink v1.3.2 // indirect
	github.com/mdlayher/netlink v1.8.0 // indirect
	github.com/mdlayher/socket v0.5.1 // indirect
	golang.org/x/crypto v0.46.0 // indirect
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sync v0.3.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
)
