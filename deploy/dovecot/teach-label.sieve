require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables", "special-use"];
if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
if environment :matches "imap.mailbox" "*" {
    set "folder" "${1}";
    set :lower "label" "${1}";
}
# The label is the name of the folder in lower case, and elsewhere ham.
if string :is "${folder}" ["Newsletter", "Notification", "Phishing"] {
    pipe :copy :try "postbayes-teach" ["${label}", "${user}"];
} elsif not anyof (string :is "${folder}" ["Trash", "Junk"], specialuse_exists "${folder}" "\\Trash") {
    pipe :copy :try "postbayes-teach" ["ham", "${user}"];
}
