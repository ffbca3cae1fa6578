#!/bin/sh
# The functions of the order example, in the smallest language that is everywhere.
#
# A function reads JSON from stdin and writes JSON to stdout. It has failed when it ends with
# another status than 0; what it wrote to stderr is then the cause.
set -eu
input=$(tr -d '\n')

# The value of a member, for JSON as flat as in this example.
member() {
    printf '%s\n' "$input" | sed -n "s/.*\"$1\" *: *\"\{0,1\}\([^\",}]*\).*/\1/p"
}

case $1 in
reserve-stock)
    printf '{"reservation": "res-%s"}\n' "$(member order)"
    ;;
release-stock)
    printf '{"released": "%s"}\n' "$(member reservation)"
    ;;
charge-card)
    # A real one hands the key on to the bank, which charges once for it however often it is asked:
    #   curl -H "Idempotency-Key: $PERDURA_IDEMPOTENCY_KEY" …
    case $(member card) in
    tok_declined)
        echo "the card was declined" >&2
        exit 1
        ;;
    esac
    printf '{"charge": "ch-%s", "amount": %s}\n' "$(member order)" "$(member amount)"
    ;;
ship)
    printf '{"tracking": "PX-%s"}\n' "$(member order)"
    ;;
send-receipt)
    printf '{"to": "%s"}\n' "$(member email)"
    ;;
*)
    echo "no such function: $1" >&2
    exit 1
    ;;
esac
