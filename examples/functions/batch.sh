#!/bin/sh
# The function of the batch example: sends one invoice by mail.
#
# It plays three recipients: busy@ is busy the first time, nobody@ does not exist, all others work. It names its errors, and
# perdura.toml says of them that nothing was sent; so a retry is a new call, with a key and a payload of its own.
set -eu
input=$(tr -d '\n')
member() {
    printf '%s\n' "$input" | sed -n "s/.*\"$1\" *: *\"\{0,1\}\([^\",}]*\).*/\1/p"
}

case "$(member to) $(member earlier_tries)" in
"busy@example.com 0")
    echo '{"errorType": "MailServerBusy", "errorMessage": "the mail server is busy"}'
    exit 1
    ;;
"nobody@example.com "*)
    echo '{"errorType": "NoSuchMailbox", "errorMessage": "there is no such mailbox"}'
    exit 1
    ;;
esac
printf '{"number": "%s", "tries": %s}\n' "$(member number)" "$(($(member earlier_tries) + 1))"
