/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h - every bound of the planner on one page. */
#ifndef FAN_PLAN_SIZES_H
#define FAN_PLAN_SIZES_H

/* What a topology may have */
#define FAN_TOPO_NODES_MAX 16384
#define FAN_TOPO_LINKS_MAX 65536
#define FAN_TOPO_JOBS_MAX  256
#define FAN_TOPO_NAME_MAX  63	/* bytes of a node's or job's name */
#define FAN_TOPO_GBPS_MIN  1e-4 /* rates outside these bounds are refused; LPs err by 1e-7 */
#define FAN_TOPO_GBPS_MAX  1e9
#define FAN_WHY_BYTES	   320 /* an error's text with its terminating zero */

/* What a plan may have */
#define FAN_HOPS_MAX  24   /* links of one route */
#define FAN_TREES_MAX 1024 /* trees of one plan, over all jobs */

/* What can be installed */
#define FAN_PARTS_MAX  64	  /* trees of one job; each is a job of its own to its workers */
#define FAN_PART_SHARE 1e-9	  /* trees with a smaller share are left out */
#define FAN_STOPS_MAX  (1u << 20) /* switches of all parts together */
#define FAN_RULES_MAX  (1u << 22) /* entries of all of them together */

#define FAN_CIRCLE_MAX 4096 /* more entries of a part in a row count as a circle */

/* How long algorithms search */
#define FAN_PATHS_DEFAULT     8	     /* candidate routes between two nodes */
#define FAN_PATHS_MAX	      64     /* most candidate routes between two nodes */
#define FAN_PATH_STEPS_MAX    20000  /* links tried for one pair of nodes */
#define FAN_ROUNDINGS	      64     /* random roundings of one relaxed plan, by default */
#define FAN_ROUNDINGS_MAX     100000 /* most roundings of one relaxed plan */
#define FAN_TREES_DEFAULT     64     /* trees of one job on one server, by default */
#define FAN_LP_COLUMNS_MAX    150000 /* of a relaxed program; larger ones are refused */
#define FAN_BOUND_COLUMNS     25000  /* of the program of flows; otherwise the closed form */
#define FAN_LP_ITERATIONS     200000 /* steps of the simplex */
#define FAN_PHASE_COLUMNS     6000   /* of a program that is rounded; else fewer candidates */
#define FAN_EXACT_NODES_MAX   20000  /* nodes of branch and bound */
#define FAN_EXACT_CHOICES_MAX 4000   /* integer variables; `exact` refuses more */
#define FAN_BEST_NODES	      200 /* nodes of branch and bound if `best` runs `exact`: a second */
#define FAN_BEST_CHOICES      300 /* integer variables if `best` runs `exact` */
#define FAN_PACK_ROUNDS	      400 /* pricing rounds of column generation */
#define FAN_PACK_WORK	      4e9 /* simplex steps times rows in all of these rounds */
#define FAN_SEARCH_PASSES     12  /* passes of local search over all workers */
#define FAN_CANDIDATES_LARGE  24  /* switches tried where trying all would take too long */

#endif
