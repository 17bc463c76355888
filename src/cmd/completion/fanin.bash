# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of fanin(1) in bash.  Commands and options come from the program itself, so they are
# those that it takes.

# Print the fields of option NAME, or of no option: nothing.
_fanin_option() { # PROGRAM COMMAND NAME
	"$1" "$2" --list-options 2>/dev/null |
		awk -F '\t' -v name="$3" '$1 == name || $2 == name { print $3 "\t" $4; exit }'
}

# What may follow an option, or stand behind its "=".  1: it takes no argument.
_fanin_value() { # PROGRAM COMMAND NAME CURRENT
	local what words
	IFS=$'\t' read -r what words <<<"$(_fanin_option "$1" "$2" "$3")"
	[[ -n $what && $what != - ]] || return 1
	if [[ $words != - ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${words//,/ }" -- "$4")
	elif [[ $what == FILE || $what == PATH || $what == DIR ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$4")
	fi
}

_fanin() {
	local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]}
	local before=${COMP_WORDS[COMP_CWORD - 1]}
	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$program" --list-commands 2>/dev/null |
			cut -f 1) --help --version" -- "$current")
		return
	fi
	# bash cuts --policy=atp up at the "=".
	if [[ $current == = ]]; then
		current=
	elif [[ $before == = ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $before == -* ]] && _fanin_value "$program" "$command" "$before" "$current"; then
		return
	fi
	if [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$program" "$command" --list-options \
			2>/dev/null | cut -f 1)" -- "$current")
	else
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
	fi
}
complete -F _fanin fanin
