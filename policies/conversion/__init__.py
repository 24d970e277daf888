"""Make policies from configuration files of other programs (`convert_file`).

Such a file is a hostapd.conf, for instance.
"""
