/*
 * First process of a machine that runs one command on the caller's root file system
 * (guest/radio.py). It is linked statically, so it needs nothing of that root.
 *
 * /settings has the machine's settings: strings that end with a zero byte, the first letter says
 * of what kind (read_settings). Frames on ttyS0 (from the host) and ttyS1 (to the host) carry the
 * streams of the command; Frame in guest/radio.py describes them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/genetlink.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/nl80211.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MANY 4096
#define PIECE 16384		/* bytes of one frame at most */
#define WINDOW 65536		/* bytes of a stream under way before they are acknowledged */
#define REST (1 << 20)		/* more than pipes or a terminal hold when the command has ended */
#define CAPTURE_BUFFER (4 << 20)
#define ALL_PROTOCOLS 0x0003

enum { INPUT, OUTPUT, ERRORS, TERMINAL, CAPTURE, KEYS, STREAMS };

static struct {
	char *root, *folder, *host_name, *terminals, *window, *mask;
	char *binds[MANY], *sources[MANY], *namespaces[MANY], *steps[MANY], *argv[MANY], *environment[MANY];
	int nbinds, nsources, nnamespaces, nsteps, nargv, nenvironment, captures, keys;
} set;

static int line_in = -1, line_out = -1;

/* --- Frames to the host ------------------------------------------------------------------- */

struct frame {
	uint8_t type, stream;
	uint16_t unused;
	uint32_t length;
};

static void write_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t done = write(fd, at, length);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		at += done;
		length -= done;
	}
}

static void send_frame(char type, int stream, const void *data, uint32_t length)
{
	static char whole[sizeof(struct frame) + PIECE + 512];
	struct frame head = { type, stream, 0, length };

	memcpy(whole, &head, sizeof head);
	memcpy(whole + sizeof head, data, length);
	write_all(line_out, whole, sizeof head + length);
}

static void send_number(char type, int stream, uint32_t number)
{
	send_frame(type, stream, &number, sizeof number);
}

static void power_off(void)
{
	/* What the kernel holds of the line, as the host has not read it yet, would be lost. */
	tcdrain(line_out);
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

/* Reports a failure with its cause to the host, and ends the machine. */
static void give_up(const char *format, ...)
{
	char text[512];
	int error = errno, length;
	va_list rest;

	va_start(rest, format);
	length = vsnprintf(text, sizeof text, format, rest);
	va_end(rest);
	if (length < (int)sizeof text)
		snprintf(text + length, sizeof text - length, ": %s", strerror(error));
	send_frame('F', 0, text, strlen(text));
	power_off();
}

/* --- Settings ------------------------------------------------------------------------------ */

static void add(char **list, int *count, char *text)
{
	if (*count < MANY - 1)
		list[(*count)++] = text;
}

static void read_settings(void)
{
	int fd = open("/settings", O_RDONLY | O_CLOEXEC);
	struct stat about;
	char *text, *at;
	ssize_t have = 0, done;

	if (fd < 0 || fstat(fd, &about) || !(text = malloc(about.st_size + 1)))
		give_up("/settings");
	while ((done = read(fd, text + have, about.st_size - have)) > 0)
		have += done;
	close(fd);
	/* What the host cannot remove if it is killed: the environment may have secrets. */
	unlink("/settings");
	unlink("/init");
	text[have] = 0;
	for (at = text; at < text + have; at += strlen(at) + 1)
		switch (*at) {
		case 'r': set.root = at + 1; break;
		case 'd': set.folder = at + 1; break;
		case 'h': set.host_name = at + 1; break;
		case 't': set.terminals = at + 1; break;
		case 'w': set.window = at + 1; break;
		case 'm': set.mask = at + 1; break;
		case 'c': set.captures = 1; break;
		case 'k': set.keys = 1; break;
		case 'b': add(set.binds, &set.nbinds, at + 1); break;
		case 's': add(set.sources, &set.nsources, at + 1); break;
		case 'q':
		case 'x': add(set.steps, &set.nsteps, at); break;
		case 'n': add(set.namespaces, &set.nnamespaces, at + 1); break;
		case 'a': add(set.argv, &set.nargv, at + 1); break;
		case 'e': add(set.environment, &set.nenvironment, at + 1); break;
		}
}

/* --- File systems -------------------------------------------------------------------------- */

static void make_folders(const char *path)
{
	char part[PATH_MAX];

	for (const char *at = path + 1; (at = strchrnul(at, '/')); at++) {
		snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
		if (mkdir(part, 0755) && errno != EEXIST)
			give_up("%s", path);
		if (!*at)
			return;
	}
}

static void mount_at(const char *type, const char *target, const char *data)
{
	make_folders(target);
	if (mount(type, target, type, 0, data))
		give_up("%s at %s", type, target);
}

/*
 * The caller's root is the lower layer of an overlay in memory: nothing reaches the host. Bound
 * folders are the host's own.
 */
static void make_root(void)
{
	char target[PATH_MAX];

	if (mount("hostfs", "/lower", "hostfs", MS_RDONLY, set.root))
		give_up("%s", set.root);
	if (mount("tmpfs", "/memory", "tmpfs", 0, "size=80%,mode=755"))
		give_up("tmpfs");
	if (mkdir("/memory/upper", 0755) || mkdir("/memory/work", 0755))
		give_up("tmpfs");
	if (mount("overlay", "/root", "overlay", 0,
		  "lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work"))
		give_up("overlay");
	mount_at("proc", "/root/proc", NULL);
	mount_at("sysfs", "/root/sys", NULL);
	mount_at("debugfs", "/root/sys/kernel/debug", NULL);
	mount_at("devtmpfs", "/root/dev", "mode=755");
	mount_at("devpts", "/root/dev/pts", "gid=5,mode=620,ptmxmode=666");
	mount_at("tmpfs", "/root/dev/shm", "mode=1777");
	mount_at("tmpfs", "/root/run", "mode=755");
	for (int i = 0; i < set.nbinds; i++) {
		snprintf(target, sizeof target, "/root%s", set.binds[i]);
		make_folders(target);
		if (mount("hostfs", target, "hostfs", 0, set.sources[i]))
			give_up("%s", set.sources[i]);
	}
	if (chdir("/root") || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH))
		give_up("root");
	if (chdir("/"))
		give_up("/");
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
}

/* --- Network ------------------------------------------------------------------------------- */

static void bring_up(const char *name)
{
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request))
		give_up("%s", name);
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		give_up("%s", name);
	close(fd);
}

struct message {
	struct nlmsghdr head;
	struct genlmsghdr generic;
	char attributes[1024];
};

static void put(struct message *message, int type, const void *data, int length)
{
	struct nlattr *attribute = (void *)((char *)message + NLMSG_ALIGN(message->head.nlmsg_len));

	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + length;
	memcpy((char *)attribute + NLA_HDRLEN, data, length);
	message->head.nlmsg_len = NLMSG_ALIGN(message->head.nlmsg_len) + NLA_ALIGN(NLA_HDRLEN + length);
}

/* Sends a request and returns 0, or -1 with errno. The answer before it is in `message`. */
static int request(int fd, struct message *message)
{
	char answer[8192];
	int error = 0;

	message->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, message, message->head.nlmsg_len, 0) < 0)
		return -1;
	for (;;) {
		ssize_t length = recv(fd, answer, sizeof answer, 0);
		struct nlmsghdr *head = (void *)answer;

		if (length < (ssize_t)sizeof *head)
			return -1;
		if (head->nlmsg_type == NLMSG_ERROR) {
			memcpy(&error, answer + sizeof *head, sizeof error);
			errno = -error;
			return error ? -1 : 0;
		}
		memcpy(message, answer, (size_t)length < sizeof *message ? (size_t)length : sizeof *message);
	}
}

static uint16_t find_family(int fd, const char *name)
{
	struct message message = { .head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
					     .nlmsg_type = GENL_ID_CTRL },
				   .generic = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 } };
	char *at = message.attributes, *end;

	put(&message, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	if (request(fd, &message))
		give_up("%s", name);
	end = (char *)&message + (message.head.nlmsg_len < sizeof message ?
				  message.head.nlmsg_len : sizeof message);
	while (at + NLA_HDRLEN < end) {
		struct nlattr *attribute = (void *)at;

		if (attribute->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(uint16_t *)(at + NLA_HDRLEN);
		if (attribute->nla_len < NLA_HDRLEN)
			break;
		at += NLA_ALIGN(attribute->nla_len);
	}
	errno = ENOENT;
	give_up("%s", name);
	return 0;
}

static uint32_t radio_index(int number)
{
	char path[64], text[16] = "";
	int fd;

	snprintf(path, sizeof path, "/sys/class/ieee80211/phy%d/index", number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		give_up("phy%d", number);
	close(fd);
	return atoi(text);
}

/*
 * Makes the network namespaces, as `ip netns add` does, and gives each one a radio, in their order.
 * A name that comes again gets one more.
 */
static void make_namespaces(void)
{
	int fd, here, made;
	uint16_t family;

	if (!set.nnamespaces)
		return;
	make_folders("/run/netns");
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || here < 0)
		give_up("network namespace");
	family = find_family(fd, "nl80211");
	for (int i = 0; i < set.nnamespaces; i++) {
		char path[PATH_MAX];
		struct message message = { .head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
						     .nlmsg_type = family },
					   .generic = { .cmd = NL80211_CMD_SET_WIPHY_NETNS } };
		uint32_t radio = radio_index(i);

		snprintf(path, sizeof path, "/run/netns/%s", set.namespaces[i]);
		made = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
		if (made >= 0) {
			close(made);
			if (unshare(CLONE_NEWNET) ||
			    mount("/proc/self/ns/net", path, "none", MS_BIND, NULL))
				give_up("network namespace %s", set.namespaces[i]);
			bring_up("lo");
		}
		made = open(path, O_RDONLY | O_CLOEXEC);
		if (made < 0 || setns(here, CLONE_NEWNET))
			give_up("network namespace %s", set.namespaces[i]);
		put(&message, NL80211_ATTR_WIPHY, &radio, sizeof radio);
		put(&message, NL80211_ATTR_NETNS_FD, &made, sizeof made);
		if (request(fd, &message))
			give_up("phy%d to network namespace %s", i, set.namespaces[i]);
		close(made);
	}
	close(here);
	close(fd);
}

static void enter_namespace(const char *name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof path, "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		_exit(1);
}

/* Runs a shell command. Returns its status; `said` gets the beginning of its output. */
static int run_shell(const char *namespace, const char *text, char *said, size_t size)
{
	int pair[2], status = -1;
	size_t have = 0;
	ssize_t length;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) || (pid = fork()) < 0)
		give_up("fork");
	if (!pid) {
		if (*namespace)
			enter_namespace(namespace);
		dup2(pair[1], 1);
		dup2(pair[1], 2);
		setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
		execl("/bin/sh", "sh", "-c", text, NULL);
		_exit(127);
	}
	close(pair[1]);
	while (have < size - 1 && (length = read(pair[0], said + have, size - 1 - have)) > 0)
		have += length;
	said[have] = 0;
	close(pair[0]);
	waitpid(pid, &status, 0);
	return status;
}

/* Sends a request of rtnetlink, given in hexadecimal digits, with the number of an interface. */
static int send_route_request(const char *device, const char *digits)
{
	size_t length = strlen(digits) / 2;
	char *body = malloc(length), answer[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), error;
	int index = if_nametoindex(device);

	for (size_t i = 0; i < length; i++) {
		unsigned int value;

		sscanf(digits + 2 * i, "%2x", &value);
		body[i] = value;
	}
	memcpy(body + sizeof(struct nlmsghdr) + 4, &index, sizeof index);
	if (!index || send(fd, body, length, 0) < 0 || recv(fd, answer, sizeof answer, 0) < 0)
		return errno;
	memcpy(&error, answer + sizeof(struct nlmsghdr), sizeof error);
	return -error;
}

/* What makes the medium: shell commands, for which the root has programs, and requests. */
static void make_steps(void)
{
	for (int i = 0; i < set.nsteps; i++) {
		char said[300], *namespace = set.steps[i] + 1, *rest = strchr(namespace, ' ');
		int error = 0;

		*rest++ = 0;
		if (*set.steps[i] == 'x') {
			if (!run_shell(namespace, rest, said, sizeof said))
				continue;
			errno = EIO;
			give_up("medium: %s", said);
		}
		if (!fork()) {
			char *device = rest;

			if (*namespace)
				enter_namespace(namespace);
			rest = strchr(rest, ' ');
			*rest++ = 0;
			_exit(send_route_request(device, rest));
		}
		wait(&error);
		errno = WEXITSTATUS(error);
		if (errno)
			give_up("medium");
	}
}

/* --- Capture of the air -------------------------------------------------------------------- */

static int open_capture(void)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ALL_PROTOCOLS) };
	int fd, size = CAPTURE_BUFFER, on = 1;

	if (!set.captures)
		return -1;
	bring_up("hwsim0");
	address.sll_ifindex = if_nametoindex("hwsim0");
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) ||
	    bind(fd, (void *)&address, sizeof address))
		give_up("hwsim0");
	return fd;
}

/* Sends captured packets to the host, each with the header of a capture file (nanoseconds). */
static void forward_packets(int fd)
{
	static struct {
		uint32_t seconds, nanoseconds, kept, length;
		char data[PIECE - 16];
	} packet;
	char control[256];

	for (;;) {
		struct iovec data = { packet.data, sizeof packet.data };
		struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = sizeof control };
		ssize_t length = recvmsg(fd, &message, MSG_TRUNC);
		struct cmsghdr *part;

		if (length < 0)
			return;
		packet.length = length;
		packet.kept = length < (ssize_t)sizeof packet.data ? length : (ssize_t)sizeof packet.data;
		for (part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
			if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_TIMESTAMPNS) {
				struct timespec at;

				memcpy(&at, CMSG_DATA(part), sizeof at);
				packet.seconds = at.tv_sec;
				packet.nanoseconds = at.tv_nsec;
			}
		send_frame('D', CAPTURE, &packet, 16 + packet.kept);
	}
}

/* --- Keys of the radios -------------------------------------------------------------------- */

#define KEYS_NS 20000000	/* least time between two looks, in ns: they take time, too */
#define RADIOS "/sys/kernel/debug/ieee80211"

static int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = 0;
	text[strcspn(text, "\n")] = 0;
	return length > 0;
}

/*
 * Sends the keys that the radios use at this moment, once each: "ALGORITHM KEY" in hexadecimal.
 * Looks every KEYS_NS, or at once.
 */
static void send_keys(int at_once)
{
	static char sent[512][160];
	static int nsent;
	static struct timespec last;
	struct timespec now;
	DIR *radios, *keys;
	struct dirent *radio, *key;
	char path[PATH_MAX], text[160], algorithm[32];

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!at_once &&
	    (now.tv_sec - last.tv_sec) * 1000000000LL + now.tv_nsec - last.tv_nsec < KEYS_NS)
		return;
	last = now;
	radios = opendir(RADIOS);
	while (radios && (radio = readdir(radios))) {
		snprintf(path, sizeof path, RADIOS "/%s/keys", radio->d_name);
		keys = *radio->d_name == '.' ? NULL : opendir(path);
		while (keys && (key = readdir(keys))) {
			int known = 0;

			snprintf(path, sizeof path, RADIOS "/%s/keys/%s/algorithm", radio->d_name,
				 key->d_name);
			if (!read_text(path, algorithm, sizeof algorithm))
				continue;
			strcpy(strrchr(path, '/'), "/key");
			snprintf(text, sizeof text, "%s ", algorithm);
			if (!read_text(path, text + strlen(text), sizeof text - strlen(text)))
				continue;
			for (int i = 0; i < nsent && !known; i++)
				known = !strcmp(sent[i], text);
			if (known || nsent == sizeof sent / sizeof *sent)
				continue;
			strcpy(sent[nsent++], text);
			send_frame('D', KEYS, text, strlen(text));
		}
		if (keys)
			closedir(keys);
	}
	if (radios)
		closedir(radios);
}

static void report_lost_packets(int fd)
{
	struct tpacket_stats counts = { 0 };
	socklen_t size = sizeof counts;

	if (!getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &counts, &size))
		send_number('L', CAPTURE, counts.tp_drops);
}

/* --- The command --------------------------------------------------------------------------- */

static int ends[STREAMS] = { -1, -1, -1, -1, -1, -1 };	/* this process's ends of the streams */
static int room[STREAMS] = { 0, WINDOW, WINDOW, WINDOW };
static pid_t command;
static int unread = -1;		/* the command's end of its input, to count what it has not read */

static void set_window(const char *text)
{
	struct winsize size = { 0 };

	if (ends[TERMINAL] >= 0 && sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) == 2)
		ioctl(ends[TERMINAL], TIOCSWINSZ, &size);
}

static int open_terminal(void)
{
	char path[32];
	int number, no = 0, slave;

	ends[TERMINAL] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (ends[TERMINAL] < 0 || ioctl(ends[TERMINAL], TIOCSPTLCK, &no) ||
	    ioctl(ends[TERMINAL], TIOCGPTN, &number))
		give_up("/dev/ptmx");
	snprintf(path, sizeof path, "/dev/pts/%d", number);
	slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		give_up("%s", path);
	set_window(set.window ? set.window : "");
	return slave;
}

static void exec_command(int terminal, int *theirs, int failure)
{
	sigset_t none;
	int error;

	setsid();
	if (terminal >= 0)
		ioctl(terminal, TIOCSCTTY, 0);
	for (int i = INPUT; i <= ERRORS; i++)
		dup2(theirs[i] >= 0 ? theirs[i] : terminal, i);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (set.mask)
		umask(strtol(set.mask, NULL, 8));
	environ = set.environment;
	/* A path that the root lacks, or a file: as a shell whose folder was removed. */
	if (chdir(set.folder) && chdir("/"))
		_exit(127);
	setenv("PWD", get_current_dir_name(), 1);
	execvp(set.argv[0], set.argv);
	error = errno;
	write_all(failure, &error, sizeof error);
	_exit(127);
}

static void start_command(void)
{
	int theirs[3] = { -1, -1, -1 }, failure[2], terminal = -1, error;

	if (set.terminals && *set.terminals)
		terminal = open_terminal();
	for (int i = INPUT; i <= ERRORS; i++) {
		int pair[2];

		if (set.terminals && strchr(set.terminals, '0' + i))
			continue;
		if (pipe2(pair, O_CLOEXEC))
			give_up("pipe");
		ends[i] = pair[i == INPUT];
		theirs[i] = pair[i != INPUT];
		fcntl(ends[i], F_SETFL, O_NONBLOCK);
	}
	if (ends[TERMINAL] >= 0)
		fcntl(ends[TERMINAL], F_SETFL, O_NONBLOCK);
	if (pipe2(failure, O_CLOEXEC))
		give_up("pipe");
	command = fork();
	if (command < 0)
		give_up("fork");
	if (!command)
		exec_command(terminal, theirs, failure[1]);
	unread = theirs[INPUT];
	for (int i = OUTPUT; i <= ERRORS; i++)
		if (theirs[i] >= 0)
			close(theirs[i]);
	close(failure[1]);	/* the terminal stays open, so it never hangs up */
	if (read(failure[0], &error, sizeof error) == sizeof error) {
		send_number('E', 0, error);
		power_off();
	}
	close(failure[0]);
}

/* --- Relay between the line and the streams ----------------------------------------------- */

static char input[WINDOW];
static size_t input_have;
static uint32_t input_taken;	/* bytes that came from the host */
static int input_ended;

static int input_end(void)
{
	return set.terminals && strchr(set.terminals, '0') ? ends[TERMINAL] : ends[INPUT];
}

static void close_end(int stream)
{
	if (ends[stream] >= 0)
		close(ends[stream]);
	ends[stream] = -1;
}

/* Hands what the host sent to the command. */
static void feed_input(void)
{
	ssize_t done = input_have ? write(input_end(), input, input_have) : 0;

	if (done < 0)	/* full, until the command reads */
		return;
	if (done) {
		memmove(input, input + done, input_have - done);
		input_have -= done;
		send_number('A', INPUT, done);
	}
	if (input_ended && !input_have)
		close_end(INPUT);
}

/* Sends what the command wrote, as much as the host has room for. Returns its length. */
static int forward_output(int stream)
{
	static char data[PIECE];
	size_t most = room[stream] < PIECE ? room[stream] : PIECE;
	ssize_t length;

	if (ends[stream] < 0 || !most)
		return 0;
	length = read(ends[stream], data, most);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (length <= 0) {
		close_end(stream);
		return 0;
	}
	room[stream] -= length;
	send_frame('D', stream, data, length);
	return length;
}

static void take_frame(const struct frame *frame, const char *data)
{
	uint32_t number = 0;

	memcpy(&number, data, frame->length < 4 ? frame->length : 4);
	switch (frame->type) {
	case 'D':
		if (frame->length <= sizeof input - input_have) {
			memcpy(input + input_have, data, frame->length);
			input_have += frame->length;
			input_taken += frame->length;
			feed_input();
		}
		break;
	case 'C':
		if (frame->stream == INPUT) {
			input_ended = 1;
			feed_input();
		} else if (frame->stream < CAPTURE) {
			close_end(frame->stream);
		}
		break;
	case 'A':
		if (frame->stream < STREAMS)
			room[frame->stream] += number;
		break;
	case 'S':	/* Ctrl-C is for all programs of the terminal, other signals for one */
		kill(number == SIGINT || number == SIGQUIT ? -command : command, number);
		break;
	case 'W':
		set_window(data);
		break;
	}
}

static void read_line(void)
{
	static char data[sizeof(struct frame) + WINDOW + 1];
	static size_t have;
	ssize_t length = read(line_in, data + have, sizeof data - 1 - have);
	struct frame frame;

	if (length <= 0)	/* the host has gone */
		power_off();
	have += length;
	while (have >= sizeof frame) {
		char last;
		size_t whole;

		memcpy(&frame, data, sizeof frame);
		whole = sizeof frame + frame.length;
		if (frame.length > WINDOW || have < whole)
			return;
		last = data[whole];
		data[whole] = 0;
		take_frame(&frame, data + sizeof frame);
		data[whole] = last;
		memmove(data, data + whole, have - whole);
		have -= whole;
	}
}

/* Reaps ended processes. Returns whether the command is among them, and its status. */
static int reap(int signals, int *status)
{
	struct signalfd_siginfo info;
	int ended = 0, its;
	pid_t pid;

	while (read(signals, &info, sizeof info) > 0)
		;
	while ((pid = waitpid(-1, &its, WNOHANG)) > 0)
		if (pid == command) {
			*status = its;
			ended = 1;
		}
	return ended;
}

/* Tells how much of its input the command has read: the rest is for the caller's next command. */
static void report_input(void)
{
	int waiting = 0;

	if (unread >= 0)
		ioctl(unread, FIONREAD, &waiting);
	send_number('U', INPUT, input_taken - input_have - waiting);
}

static int relay(int signals, int capture)
{
	int status = 0, ended = 0, rest = REST;

	for (;;) {
		struct pollfd polled[] = {
			{ .fd = line_in, .events = POLLIN },
			{ .fd = signals, .events = ended ? 0 : POLLIN },
			{ .fd = capture, .events = POLLIN },
			{ .fd = input_have ? input_end() : -1, .events = POLLOUT },
			{ .fd = room[OUTPUT] ? ends[OUTPUT] : -1, .events = POLLIN },
			{ .fd = room[ERRORS] ? ends[ERRORS] : -1, .events = POLLIN },
			{ .fd = room[TERMINAL] ? ends[TERMINAL] : -1, .events = POLLIN },
		};
		int moved = 0, blocked = 0;

		/* A program that has ended may have left output, for which the host has no room yet. */
		if (poll(polled, sizeof polled / sizeof *polled, ended ? 0 : -1) < 0 && errno != EINTR)
			give_up("poll");
		if (polled[0].revents)
			read_line();
		if (!ended && polled[1].revents)
			ended = reap(signals, &status);
		if (polled[2].revents) {
			/* A key is there before a frame that it protects. */
			if (set.keys)
				send_keys(0);
			forward_packets(capture);
		}
		if (polled[3].revents)
			feed_input();
		for (int stream = OUTPUT; stream <= TERMINAL; stream++) {
			moved += forward_output(stream);
			blocked |= ends[stream] >= 0 && !room[stream];
		}
		if (!ended)
			continue;
		rest -= moved;
		if (rest <= 0 || (!moved && !blocked))
			return status;
		if (blocked)
			poll(polled, 1, -1);	/* until the host has taken some */
	}
}

static int open_line(const char *path, int how)
{
	struct termios settings;
	int fd = open(path, how | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || tcgetattr(fd, &settings))
		power_off();
	cfmakeraw(&settings);
	tcsetattr(fd, TCSANOW, &settings);
	return fd;
}

int main(void)
{
	sigset_t child;
	int signals, capture, status;

	line_in = open_line("/dev/ttyS0", O_RDONLY);
	line_out = open_line("/dev/ttyS1", O_WRONLY);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	read_settings();
	make_root();
	if (set.host_name)
		sethostname(set.host_name, strlen(set.host_name));
	bring_up("lo");
	capture = open_capture();
	make_namespaces();
	make_steps();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	start_command();
	send_frame('R', 0, "", 0);
	status = relay(signals, capture);
	report_input();
	if (capture >= 0) {
		if (set.keys)
			send_keys(1);
		forward_packets(capture);
		report_lost_packets(capture);
	}
	sync();	/* before the host believes that all is written */
	send_number('X', 0, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	power_off();
}
