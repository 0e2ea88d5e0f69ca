require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables", "special-use"];
if environment :matches "imap.mailbox" "*" {
    set "folder" "${1}";
}
# Whatever the folder of deleted mail is called (RFC 8579).
if anyof (string :is "${folder}" ["Trash", "Junk"], specialuse_exists "${folder}" "\\Trash") {
    stop;
}
# What was uploaded came out of Junk if it is marked: marked mail is filed there.
if allof (environment :is "imap.cause" "APPEND", not header :is "X-Postbayes" "spam") {
    stop;
}
if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
pipe :copy :try "postbayes-teach" ["ham", "${user}"];
