#!/bin/sh
# Makes a root file system one for a Vagrant box; runs inside it, once everything is installed.
set -eu

# As Vagrant wants it: a user with its well-known key (Vagrant replaces that at the first
# `vagrant up`), both passwords "vagrant", and sudo without one (etc/sudoers.d/vagrant).
useradd --create-home --shell /bin/bash vagrant
printf '%s:vagrant\n' root vagrant | chpasswd
install -d -o vagrant -g vagrant -m 700 /home/vagrant/.ssh
install -o vagrant -g vagrant -m 600 /qop/vagrant.pub /home/vagrant/.ssh/authorized_keys
chmod 440 /etc/sudoers.d/vagrant
rm -f /etc/ssh/ssh_host_*

echo qop >/etc/hostname
# The builder's; the box gets one by DHCP.
rm -f /etc/resolv.conf
# Nothing works in the background while something is measured.
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
	fstrim.timer wpa_supplicant.service

# The boot loader with all it needs, for the space before the first partition.
grub-mkimage --format=i386-pc --output=/boot/grub/core.img --prefix='(hd0,msdos1)/boot/grub' \
	biosdisk part_msdos ext2 normal configfile echo serial terminal linux
