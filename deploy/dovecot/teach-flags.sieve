require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables", "imap4flags"];
if environment :matches "imap.changedflags" "*" {
    set "changed" " ${1} ";
}
if not string :contains "${changed}" [" $Junk ", " Junk ", " $NotJunk ", " NonJunk "] {
    stop;
}
if environment :matches "imap.user" "*" {
    set "user" "${1}";
}
# With both marks a message has neither, as their definition says.
if allof (hasflag ["$Junk", "Junk"], not hasflag ["$NotJunk", "NonJunk"]) {
    pipe :copy :try "postbayes-teach" ["spam", "${user}"];
} elsif allof (hasflag ["$NotJunk", "NonJunk"], not hasflag ["$Junk", "Junk"]) {
    pipe :copy :try "postbayes-teach" ["ham", "${user}"];
}
