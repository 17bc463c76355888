/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/lib/base/config_rig.h"

#include <sys/stat.h>

static void list_unknown(void *ctx, const char *name, const char *value, const char *from)
{
	char *text = ctx;
	(void)from;
	snprintf(text + strlen(text), 256 - strlen(text), "%s>%s ", name, value);
}

static void shout(void *arg, const char *text)
{
	char *all = arg;
	snprintf(all + strlen(all), 256 - strlen(all), "%s\n", text);
}

/* Those of commands are known, and so is what stands for no option.  The first test, since a
 * process is told once. */
TEST_WITH(config__unknown_variables_with_the_one_that_was_meant, clean, NULL)
{
	char text[256] = "";
	struct fanin_options o = FANIN_OPTIONS_INIT;
	setenv("FANIN_SWICH", "s:1", 1);
	setenv("FANIN_TIMEOUTMS", "", 1);
	setenv("FANIN_SERVICE_HOST", "10.0.0.1", 1);
	setenv("FANIN_SWITCH_SLOTS", "1", 1);
	setenv("FANIN_METRICS", "m", 1);
	setenv("FANIN_PACE", "0", 1);
	setenv("FANINSWITCH", "m", 1);
	fan_config_unknown(list_unknown, text);
	assert_non_null(strstr(text, "FANIN_SWICH>FANIN_SWITCH "));
	assert_non_null(strstr(text, "FANIN_TIMEOUTMS>FANIN_TIMEOUT_MS "));
	assert_non_null(strstr(text, "FANIN_SERVICE_HOST> "));
	assert_non_null(strstr(text, "FANIN_PACE>pace in the file FANIN_CONFIG "));
	assert_null(strstr(text, "FANIN_SWITCH_SLOTS"));
	assert_null(strstr(text, "FANIN_METRICS"));
	assert_null(strstr(text, "FANINSWITCH"));
	*text = '\0';
	o.waiting = shout;
	o.waiting_arg = text;
	o.mode = 7;
	assert_int_equal(fan_config_load(&c, &o, why, sizeof why), FAN_E_INVALID);
	assert_non_null(
		strstr(text, "FANIN_SWICH is no variable of fanin; did you mean FANIN_SWITCH?\n"));
	assert_null(strstr(text, "HOST is"));
	*text = '\0';
	assert_int_equal(fan_config_load(&c, &o, why, sizeof why), FAN_E_INVALID);
	assert_string_equal(text, ""); /* once a process */
	unsetenv("FANIN_SWICH");
	unsetenv("FANIN_TIMEOUTMS");
}

TEST_WITH(config__defaults, clean, NULL)
{
	struct fanin_options o = complete();
	assert_is(&o, 1, 4);
	assert_string_equal(c.switch_addr, "10.0.0.1:5000");
	assert_string_equal(c.job, "default");
	assert_int_equal(c.mtu, 1500);
	assert_int_equal(c.window, 0);
	assert_int_equal(c.timeout_ms, 30000);
	assert_int_equal(c.alive_ms, 10000);
	assert_int_equal(c.mode, FANIN_MODE_NATIVE);
	assert_int_equal(c.wire, FANIN_FLOAT32);
	assert_int_equal(c.multicast, -1);
	assert_int_equal(c.ahead, 0);
	assert_int_equal(c.rto_min_ms, 0);
	assert_int_equal(c.cache, 0);
	assert_int_equal(c.payload_bytes, FAN_PAYLOAD_1500);
}

TEST_WITH(config__running_ahead, clean, NULL)
{
	struct fanin_options o = complete();
	write_file("[worker]\nahead = 32768\ncache = 65536\ncongestion = a2tp\n");
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.ahead, FAN_AHEAD_MAX);
	assert_int_equal(c.congestion, FAN_CONGESTION_A2TP);
	assert_int_equal(c.cache, FAN_CACHE_MAX);
	assert_int_equal(c.rto_min_ms, 0);
	o.ahead = 0;
	assert_refused(&o, "cache 65536 without ahead", "expected ahead as well");
	o.cache = 0;
	assert_int_equal(load(&o), FAN_OK);
}

TEST_WITH(config__payload_fits_mtu, clean, NULL)
{
	assert_int_equal(fan_config_payload_bytes(1500, 64), FAN_PAYLOAD_1500);
	assert_int_equal(fan_config_payload_bytes(9000, 256), FAN_PAYLOAD_MAX);
	for (int mtu = 576; mtu <= 9000; mtu++) {
		for (int ranks = 2; ranks <= 256; ranks += 127) {
			int payload = fan_config_payload_bytes(mtu, ranks);
			assert_true(payload + FAN_HEAD_BYTES + (ranks + 63) / 64 * 8 + 48 <= mtu);
			assert_true(payload >= FAN_PAYLOAD_MIN && payload % 64 == 0);
		}
	}
}

TEST_WITH(config__variables, clean, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	SET({"FANIN_SWITCH", "[fd00::1]:7"}, {"FANIN_JOB", "train"}, {"FANIN_RANK", "2"},
	    {"FANIN_RANKS", "8"}, {"FANIN_MTU", "9000"}, {"FANIN_TIMEOUT_MS", "500"},
	    {"FANIN_MODE", "fixed"}, {"FANIN_PACE", "0"}, {"FANIN_RTO_MIN_MS", "x"});
	assert_is(&o, 2, 8);
	assert_string_equal(c.switch_addr, "[fd00::1]:7");
	assert_string_equal(c.job, "train");
	assert_int_equal(c.payload_bytes, FAN_PAYLOAD_MAX);
	assert_int_equal(c.timeout_ms, 500);
	assert_int_equal(c.mode, FANIN_MODE_FIXED);
	assert_int_equal(c.pace, FAN_CONFIG_PACE); /* which no variable changes */
}

TEST_WITH(config__field_wins_over_variable, clean, NULL)
{
	struct fanin_options o = complete();
	SET({"FANIN_MTU", "9000"}, {"FANIN_WIRE", "float16"});
	o.mtu = 1400;
	o.wire = FANIN_BFLOAT16;
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.mtu, 1400);
	assert_int_equal(c.wire, FANIN_BFLOAT16);
}

TEST_WITH(config__variable_wins_over_launcher_over_file, clean, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	write_file("[worker]\nswitch = s:1\nrank = 0\nranks = 2\nmtu = 1300\njob = f\n");
	SET({"RANK", "3"}, {"WORLD_SIZE", "9"}, {"FANIN_RANK", "4"}, {"FANIN_JOB", "v"});
	assert_is(&o, 4, 9);
	assert_int_equal(c.mtu, 1300);
	assert_string_equal(c.job, "v");
	assert_string_equal(c.switch_addr, "s:1");
}

TEST_WITH(config__file_skips_other_sections, clean, NULL)
{
	struct fanin_options o = complete();
	write_file("; fanin\n[switch]\nslots = many\n\n[worker]\nwire = bfloat16 ; half\n");
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.wire, FANIN_BFLOAT16);
}

TEST_WITH(config__file_errors_tell_the_line, clean, NULL)
{
	struct fanin_options o = complete();
	write_file("[worker]\n\nmtu = 12x\n");
	assert_refused(&o, ":3: mtu: \"12x\"", "a number from 576 to 9000");
	assert_why(file, "expected");
	write_file("[worker]\nmode = slow\n");
	assert_refused(&o, ":2: mode: \"slow\"", "expected native or fixed");
	write_file("[worker]\njob = a\nwindows = 3\n");
	assert_refused(
		&o, ":3: windows: unknown key",
		"expected switch, job, run, rank, ranks, mtu, window, timeout_ms, alive_ms, mode, wire, "
		"multicast, priority, ahead, cache, server, "
		"controller, pace, rto_min_ms, key_file, controller_key_file, join_ms, congestion, local, "
		"hosts or rails");
	write_file("[worker]\nmtu\n");
	assert_refused(&o, ":2: expected", "key = value");
	setenv("FANIN_CONFIG", "/nonexistent/fanin.ini", 1);
	assert_refused(&o, "/nonexistent/fanin.ini", "No such file");
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	setenv("FANIN_CONFIG", file, 1);
	assert_int_equal(load(&o), FAN_E_CONFIG); /* and does not wait for a writer */
	assert_why("FANIN_CONFIG: cannot read", "expected a regular file");
	unlink(file);
	char line[2000] = "[worker]\n";
	memset(line + strlen(line), '#', sizeof line - 10);
	line[sizeof line - 1] = '\0';
	write_file(line);
	assert_refused(&o, ":2: expected a line of at most ", "bytes");
}

/* A wrong line is told even where a stronger place already has the value. */
TEST_WITH(config__file_is_checked_whole, clean, NULL)
{
	struct fanin_options o = complete();
	write_file("[worker]\nrank = -1\n");
	assert_refused(&o, ":2: rank: \"-1\"", "a number from 0 to 255");
}

TEST_WITH(config__variable_errors, clean, NULL)
{
	static const char *const wrong[][2] = {
		{"FANIN_MTU", "575"},
		{"FANIN_MTU", "1e3"},
		{"FANIN_WIRE", "int32"},
		{"FANIN_RANKS", "257"},
		{"FANIN_TIMEOUT_MS", "99999999999999999999"},
		{"FANIN_JOB", "has\"quote"},
		{"FANIN_ALIVE_MS", "10"},
		{"FANIN_KEY_FILE", ""}, /* would run open */
		{"FANIN_CONTROLLER_KEY_FILE", ""},
		{"FANIN_HOSTS", "2"},
		{"FANIN_LINK_MBPS", "2.5G"},
		{"FANIN_LINK_MBPS", "-1"},
		{"FANIN_LINK_MBPS", "4000001"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct fanin_options o = complete();
		o.ranks = -1;
		clean(NULL);
		SET({"FANIN_RANKS", "4"}, {wrong[i][0], wrong[i][1]});
		assert_refused(&o, wrong[i][0], "expected");
	}
}

/* Variables beside the options. */
TEST_WITH(config__flags, clean, NULL)
{
	struct fanin_options o = complete();
	setenv("FANIN_LINK_MBPS", "2500", 1);
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.link_mbps, 2500);
}

/* They stand in the INI file, too, and variables win. */
TEST_WITH(config__flags_in_the_file, clean, NULL)
{
	struct fanin_options o = complete();
	write_file("[other]\nhosts = 1\n[worker]\nrails = 1\nhosts = 0\nhosts = 1\n");
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.hosts, 0);
	assert_int_equal(c.rails, 1);
	assert_int_equal(c.local, -1);
	setenv("FANIN_HOSTS", "1", 1);
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.hosts, 1);
	static const char *const wrong[][2] = {
		{"rails = no", "expected 0 or 1"},
		{"multicast = yes", "from 0 to 1"},
		{"ahead = 32769", "from 0 to 32768"},
		{"ahead = -1", "from 0 to 32768"},
		{"cache = 65537", "from 0 to 65536"},
		{"congestion = cubic", "a2tp"},
		{"split = 0", "unknown key"},
		{"link_mbps = 100", "hosts or rails"}, /* of a machine's devices, not of a job */
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		char text[64];
		snprintf(text, sizeof text, "[worker]\n%s\n", wrong[i][0]);
		write_file(text);
		assert_refused(&o, ":2: ", wrong[i][1]);
	}
}

/* What a command's flag is to the library. */
TEST_WITH(config__a_flag_sets_the_variable, clean, NULL)
{
	struct fanin_options o = complete();
	char want[64];
	assert_int_equal(fan_config_export("timeout", "99", want, sizeof want), FAN_E_CONFIG);
	assert_string_equal(want, "a number from 100 to 86400000");
	assert_int_equal(fan_config_export("timeout", "900", want, sizeof want), FAN_OK);
	assert_int_equal(fan_config_export("wire", "int8", want, sizeof want), FAN_OK);
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.timeout_ms, 900);
	assert_int_equal(c.wire, FANIN_WIRE_INT8);
}

#define INVALID(field, value, want)                                                                \
	do {                                                                                       \
		struct fanin_options o = complete();                                               \
		o.field = value;                                                                   \
		assert_invalid(&o, "options." #field, want);                                       \
	} while (0)

TEST_WITH(config__field_errors, clean, NULL)
{
	INVALID(mtu, 100, "576 to 9000");
	INVALID(wire, FANIN_INT64, "float32, float16, bfloat16 or int8");
	INVALID(switch_addr, "", "printable");
	INVALID(size, 8, "FANIN_OPTIONS_INIT");
	INVALID(job, "0123456789012345678901234567890123456789012345678901234567890123", "1 to 63");
	INVALID(reserved, -1, "options.reserved: \"-1\": expected 0");
	INVALID(reserved_end, 7, "options.reserved_end: \"7\": expected 0");
}

/* A program compiled against an older header: fields that it lacks come from elsewhere. */
TEST_WITH(config__older_options, clean, NULL)
{
	struct fanin_options o = complete();
	o.size = offsetof(struct fanin_options, controller_addr);
	o.priority = 9;
	o.controller_addr = "beyond its end";
	o.pace = 5000;
	o.reserved = 1;
	write_file("[worker]\nrto_min_ms = 30\n");
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(c.priority, 9);
	assert_string_equal(c.controller_addr, "");
	assert_int_equal(c.pace, FAN_CONFIG_PACE);
	assert_int_equal(c.rto_min_ms, 30);
	assert_null(c.waiting);
}

TEST_WITH(config__newer_options, clean, NULL)
{
	struct {
		struct fanin_options own;
		size_t more[3];
	} o = {complete(), {0}};
	o.own.size = sizeof o;
	o.own.mtu = 1400;
	assert_int_equal(load(&o.own), FAN_OK);
	assert_int_equal(c.mtu, 1400);
	o.more[2] = 1;
	assert_invalid(&o.own, "options.size", "a newer libfanin");
}

static void noted(void *arg, const char *text)
{
	(void)arg, (void)text;
}

TEST_WITH(config__fields_without_variables, clean, NULL)
{
	struct fanin_options o = complete();
	o.waiting = noted;
	o.waiting_arg = &o;
	assert_int_equal(load(&o), FAN_OK);
	assert_ptr_equal(c.waiting, noted);
	assert_ptr_equal(c.waiting_arg, &o);
}

TEST_WITH(config__the_time_of_a_join, clean, NULL)
{
	struct fanin_options o = complete();
	o.timeout_ms = 7000;
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(fan_config_join_ms(&c), 7000);
	setenv("FANIN_JOIN_MS", "900", 1);
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(fan_config_join_ms(&c), 900);
	assert_int_equal(c.timeout_ms, 7000);
	o.join_ms = 800;
	assert_int_equal(load(&o), FAN_OK);
	assert_int_equal(fan_config_join_ms(&c), 800);
	o.join_ms = 99;
	assert_invalid(&o, "options.join_ms: \"99\"", "from 100 to 86400000");
}

TEST_WITH(config__what_only_the_whole_shows, clean, NULL)
{
	struct fanin_options o = complete();
	o.switch_addr = NULL; /* allowed: rank 0 starts one */
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.switch_addr, "");
	o = complete();
	o.rank = 4;
	assert_refused(&o, "rank 4 of 4", "0 to 3");
	o = complete();
	o.mode = FANIN_MODE_FIXED;
	o.wire = FANIN_FLOAT16;
	assert_refused(&o, "mode fixed with wire float16", "expected");
	o.wire = FANIN_WIRE_INT8;
	assert_refused(&o, "mode fixed with wire int8", "expected");
	o = complete();
	o.controller_addr = "10.0.0.2:7700";
	assert_refused(&o, "and controller 10.0.0.2:7700", "expected one of them");
	o.switch_addr = NULL;
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.controller_addr, "10.0.0.2:7700");
	assert_int_equal(c.pace, FAN_CONFIG_PACE);
	o.controller_addr = "";
	assert_invalid(&o, "options.controller_addr", "expected");
}

/* Where no rank is started, only what is wrong without one is. */
TEST_WITH(tell__without_a_rank, clean, NULL)
{
	assert_int_equal(list(&(struct told){.name = "switch"}), FAN_OK);
	setenv("RANK", "0", 1);
	assert_list_refused("no rank", "WORLD_SIZE");
	unsetenv("RANK");
	setenv("FANIN_RANK", "0", 1);
	assert_list_refused("no number of ranks", "FANIN_RANKS");
	unsetenv("FANIN_RANK");
	setenv("FANIN_SWITCH", "10.0.0.1", 1);
	assert_list_refused("switch", "HOST:PORT");
}

/* A launcher's rank of more than a switch or server takes: what to do. */
TEST_WITH(load__more_ranks_than_are_in_a_group, clean, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.controller_addr = "c:1";
	SET({"WORLD_SIZE", "512"}, {"RANK", "abc"});
	assert_int_equal(load(&o), FAN_E_CONFIG);
	assert_null(strstr(why, "groups"));
	setenv("RANK", "300", 1);
	assert_refused(&o, "RANK: \"300\"",
		       "more are in groups: give each its FANIN_RANK and FANIN_RANKS");
	SET({"FANIN_RANK", "44"}, {"FANIN_RANKS", "256"});
	assert_int_equal(load(&o), FAN_OK);
}

TEST_WITH(tell__value_and_where_it_is_from, clean, NULL)
{
	SET({"FANIN_MODE", "fixed"}, {"RANK", "3"}, {"WORLD_SIZE", "4"});
	struct told mode = tell("mode"), rank = tell("rank"), window = tell("window");
	assert_string_equal(mode.value, "fixed");
	assert_string_equal(mode.from, "FANIN_MODE");
	assert_string_equal(rank.value, "3");
	assert_string_equal(rank.from, "RANK");
	assert_string_equal(window.value, "0");
	assert_string_equal(window.from, "");
	assert_true(window.rows > 20);
	write_file("[worker]\nlocal = 0\nrails = 0\n");
	setenv("FANIN_LOCAL", "1", 1);
	struct told local = tell("local"), rails = tell("rails"), hosts = tell("hosts");
	assert_string_equal(local.value, "1");
	assert_string_equal(local.from, "FANIN_LOCAL");
	assert_string_equal(rails.value, "0");
	assert_non_null(strstr(rails.from, ":3: rails"));
	assert_string_equal(hosts.value, "");
	assert_string_equal(hosts.from, "");
}

TEST_WITH(tell__all_rows_after_an_error, clean, NULL)
{
	setenv("FANIN_MTU", "7", 1);
	struct told mtu = tell("mtu");
	assert_true(mtu.rows > 20);
	assert_string_equal(mtu.value, "1500");
	assert_non_null(strstr(why, "FANIN_MTU: \"7\""));
}

/* Rank and size from a launcher's variables. */

TEST_WITH(config__launchers, clean, NULL)
{
	static const char *const pairs[][2] = {
		{"RANK", "WORLD_SIZE"},
		{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"PMI_RANK", "PMI_SIZE"},
		{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		struct fanin_options o = FANIN_OPTIONS_INIT;
		o.switch_addr = "s:1";
		clean(NULL);
		setenv(pairs[i][0], "5", 1);
		assert_int_equal(load(&o), FAN_E_CONFIG); /* half of a pair is not used */
		assert_why("no rank", "FANIN_RANK");
		setenv(pairs[i][1], "6", 1);
		assert_is(&o, 5, 6);
	}
}

/* What Slurm 22.05 sets in an allocation of four tasks: in its script, in a step of two, and in the
 * step that MPICH's mpirun starts one process of each host by. */
TEST_WITH(config__a_step_of_slurm_inside_an_allocation, clean, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.switch_addr = "s:1";
	SET({"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"});
	assert_refused(&o, "no rank", "FANIN_RANK");
	setenv("SLURM_STEP_ID", "1", 1);
	assert_is(&o, 0, 4);
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	assert_is(&o, 0, 2);
	setenv("PMI_RANK", "3", 1); /* srun --mpi=pmi2 */
	setenv("PMI_SIZE", "5", 1);
	assert_is(&o, 0, 2);
	SET({"SLURM_STEP_NUM_TASKS", "1"}, {"MPI_LOCALNRANKS", "5"});
	assert_is(&o, 3, 5);
}

/* `srun --pty bash` and salloc's shell: a step of one task, in which nothing is a rank but what
 * another launcher, or a step of more tasks, makes one. */
TEST_WITH(config__a_shell_of_slurm_is_no_rank, clean, NULL)
{
	static const char *const marks[][2] = {{"SLURM_PTY_PORT", "40001"},
					       {"SLURM_JOB_NAME", "bash"},
					       {"SLURM_JOB_NAME", "interactive"}};
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		struct fanin_options o = FANIN_OPTIONS_INIT;
		o.switch_addr = "s:1";
		clean(NULL);
		SET({"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"},
		    {"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"});
		assert_refused(&o, "SLURM_STEP_NUM_TASKS", "srun -n N");
		setenv(marks[i][0], marks[i][1], 1);
		assert_refused(&o, "no rank", "FANIN_RANK");
		struct fanin_options by_hand = o; /* beside others */
		by_hand.rank = 1;
		by_hand.ranks = 3;
		assert_is(&by_hand, 1, 3);
		setenv("PMI_RANK", "3", 1); /* mpirun, from the shell */
		setenv("PMI_SIZE", "5", 1);
		assert_is(&o, 3, 5);
		setenv("SLURM_STEP_NUM_TASKS", "2", 1);
		assert_is(&o, 0, 2);
	}
}

/* A switch inside rank 0 serves this job alone, and ranks may know its host by different names. */
TEST_WITH(config__the_job_at_a_switch_inside_rank_0, clean, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.rank = 0;
	o.ranks = 2;
	SET({"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"});
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.job, "rank0:29500");
	o.switch_addr = "s:1";
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.job, "node7:29500");
	o.job = "mine";
	assert_int_equal(load(&o), FAN_OK);
	assert_string_equal(c.job, "mine");
}

int main(void)
{
	close(mkstemp(file));
	int failed = unit_run();
	unlink(file);
	return failed;
}
